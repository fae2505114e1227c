"use strict";
// The page is complete without this script. With it trees are filtered by a path, leafed through, and predict a row.

// ---- trees ----

/** Returns a tree with the right children and the paths of its nodes, which are in preorder. */
function decoded(tree) {
  const n = tree.nodes.length, right = new Int32Array(n), path = new Int32Array(n).fill(-1);
  let at = 0, nextPath = 0;
  function visit(listed) {
    const here = at++;
    if (listed) path[here] = tree.paths[nextPath++];
    if (tree.nodes[here] < 0) return;
    visit(path[here] >= 0);
    right[here] = at;
    visit(path[here] >= 0);
  }
  visit(true);
  return {...tree, right, path, held: new Set(path)};
}

/** Returns true if a row goes left. null is a missing value, -1 a category that training rows did not have. */
function goesLeft(split, row) {
  const [feature, cut, byDefault] = split, x = row[feature];
  if (cut === null) return (x === null) === (byDefault === 1);
  if (x === null) return byDefault === 1;
  if (Array.isArray(cut)) return x < 0 ? byDefault === 1 : cut.includes(x);
  return x <= Number(cut);
}

/** Returns the nodes of a tree from the root to the leaf that a row reaches. */
function nodesOf(tree, splits, row) {
  const nodes = [0];
  for (let i = 0; tree.nodes[i] >= 0;) {
    i = goesLeft(splits[tree.nodes[i]], row) ? i + 1 : tree.right[i];
    nodes.push(i);
  }
  return nodes;
}

/** Returns the fraction of the weight of some trees in which a row reaches each leaf. */
function leavesOf(trees, splits, row) {
  const total = trees.reduce((sum, tree) => sum + tree.weight, 0), share = new Map();
  for (const tree of trees) {
    if (tree.weight === 0) continue;
    const leaf = -1 - tree.nodes[nodesOf(tree, splits, row).at(-1)];
    share.set(leaf, (share.get(leaf) || 0) + tree.weight / total);
  }
  return share;
}

/** Returns all values of a leaf. The last probability is what the others leave. An infinite mean is stored as null. */
function valuesOf(leaves, leaf, classes) {
  const values = leaves.values[leaf].map(value => value ?? Infinity);
  return classes ? [...values, 1 - values.reduce((sum, p) => sum + p, 0)] : values;
}

/** Returns mean and standard deviation over trees of each value. */
function meanOf(share, leaves, classes) {
  const mean = [], square = [];
  for (const [leaf, p] of share) valuesOf(leaves, leaf, classes).forEach((value, j) => {
    mean[j] = (mean[j] || 0) + p * value;
    square[j] = (square[j] || 0) + p * value * value;
  });
  return {mean, sd: square.map((value, j) => Math.sqrt(Math.max(value - mean[j] ** 2, 0)))};
}

// ---- distributions ----

/** Returns the log of the gamma function of x > 0 by Stirling's series from 10 on. */
function logGamma(x) {
  let shift = 0;
  for (; x < 10; x++) shift -= Math.log(x);
  const r = 1 / (x * x);
  const series = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / x;
  return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series;
}

/** Returns the regularised incomplete beta function by the continued fraction DLMF 8.17.22. */
function betaRegularised(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaRegularised(1 - x, b, a);
  let up = 1, down = 0, value = 1;
  const lifted = z => Math.abs(z) < 1e-300 ? 1e-300 : z;
  for (let m = 0; m < 2000; m++) {
    const before = value;
    for (const term of [
      m === 0 ? null : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
      -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
    ]) {
      if (term === null) continue;
      up = lifted(1 + term / up);
      down = 1 / lifted(1 + term * down);
      value *= up * down;
    }
    if (Math.abs(value - before) < 1e-13 * Math.abs(value)) break;
  }
  const log = logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x);
  return Math.exp(log) / (a * value);
}

/** Returns the probability that a standard normal number is at most z. */
function normalBelow(z) {
  if (Math.abs(z) > 8) return z > 0 ? 1 : 0;
  let sum = z, term = z;
  for (let k = 3; Math.abs(term) > 1e-17 * Math.abs(sum) && k < 400; k += 2) sum += term *= z * z / k;
  return 0.5 + sum * Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI);
}

const DISTRIBUTIONS = {
  student: {
    below([df, location, scale], y) {
      const z = (y - location) / scale;
      if (df === null) return normalBelow(z);
      const tail = 0.5 * betaRegularised(df / (df + z * z), df / 2, 0.5);
      return z > 0 ? 1 - tail : tail;
    },
    density([df, location, scale], y) {
      const z = (y - location) / scale;
      if (df === null) return Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI) / scale;
      const log = logGamma((df + 1) / 2) - logGamma(df / 2) - 0.5 * Math.log(df * Math.PI);
      return Math.exp(log - (df + 1) / 2 * Math.log1p(z * z / df)) / scale;
    },
  },
  "negative binomial": {
    below: ([shape, rate], y) => y < 0 ? 0 : 1 - betaRegularised(1 / (1 + rate), Math.floor(y) + 1, shape),
  },
};

/** Returns the probability of at most y under the mixture of the distributions of leaves. */
function mixtureBelow(share, leaves, y) {
  let sum = 0;
  for (const [leaf, p] of share) sum += p * DISTRIBUTIONS[leaves.kind].below(leaves.distributions[leaf], y);
  return sum;
}

/** Returns a quantile of the mixture, for counts the smallest number whose probability is at least q. */
function quantileOf(share, leaves, q) {
  const counts = leaves.kind !== "student", [low, high] = counts ? [-1, 1] : rangeOf(share, leaves);
  return quantile(y => mixtureBelow(share, leaves, y), q, low, high, counts);
}

/** Returns two numbers that have about all locations of Student distributions between them. */
function rangeOf(share, leaves) {
  const centre = [...share.keys()].map(leaf => leaves.distributions[leaf]);
  return [Math.min(...centre.map(([, location, scale]) => location - scale)), Math.max(...centre.map(([, location, scale]) => location + scale))];
}

/** Returns the q-quantile of a distribution function, by bisection. Counts are more than low = -1. */
function quantile(below, q, low, high, counts) {
  if (!counts) for (let step = high - low; below(low) > q && step < 1e300; step *= 2) low -= step;
  for (let step = high - low; below(high) < q && step < 1e300; step *= 2) high += step;
  for (let i = 0; i < 200 && high - low > (counts ? 1 : 1e-10 * Math.max(Math.abs(low), Math.abs(high))); i++) {
    const middle = counts ? Math.floor((low + high) / 2) : (low + high) / 2;
    if (middle === low || middle === high) break;
    if (below(middle) >= q) high = middle; else low = middle;
  }
  return high;
}

/** Returns the regularised lower incomplete gamma function, by its series, or by a continued fraction for large x. */
function gammaRegularised(a, x) {
  if (x <= 0) return 0;
  if (x === Infinity) return 1;
  const factor = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    let sum = 1 / a;
    for (let term = sum, k = 1; term > 1e-16 * sum; k++) sum += term *= x / (a + k);
    return factor * sum;
  }
  let b = x + 1 - a, c = 1e300, d = 1 / b, value = d;
  for (let k = 1; k < 2000; k++) {
    const up = -k * (k - a);
    b += 2;
    d = 1 / (up * d + b);
    c = b + up / c;
    value *= d * c;
    if (Math.abs(d * c - 1) < 1e-15) break;
  }
  return 1 - factor * value;
}

/** For each family of the posterior of E(y), or of a class probability, in a leaf: the probability of at most y.
    `value` is the value of the leaf. A parameter that is infinite is null. */
const EXPECTATIONS = {
  /** Sum of both shape parameters, null if the value is fixed given the tree. */
  beta: ([total], value, y) => total === null || value <= 0 || value >= 1 ? Number(y >= value) : betaRegularised(y, value * total, (1 - value) * total),
  /** Degrees of freedom and scale. */
  student: ([df, scale], value, y) => DISTRIBUTIONS.student.below([df, value, scale], y),
  /** Shape and rate. */
  gamma: ([shape, rate], value, y) => gammaRegularised(shape, rate * y),
  /** The scale times G to minus the power, with G of a gamma distribution: shape, scale, power. */
  "power of gamma": ([shape, scale, power], value, y) => y <= 0 ? 0 : 1 - gammaRegularised(shape, (scale / y) ** (1 / power)),
};

/** Returns the ends of the 90 % credible interval of value j, over trees and leaf parameters, null if unknown. */
function credibleEnds(share, leaves, j, classes) {
  const family = EXPECTATIONS[leaves.expectation_kind];
  if (!family) return null;
  const parts = [...share].map(([leaf, p]) => ({p, value: valuesOf(leaves, leaf, classes)[j], parameters: leaves.expectations[leaf]}));
  const scales = parts.map(({value, parameters}) => leaves.expectation_kind === "student" ? [value - parameters[1], value + parameters[1]] : [0, 1]);
  const below = y => parts.reduce((sum, {p, value, parameters}) => sum + p * family(parameters, value, y), 0);
  const low = Math.min(...scales.map(ends => ends[0])), high = Math.max(...scales.map(ends => ends[1]));
  return [0.05, 0.95].map(q => quantile(below, q, low, high, false));
}

// ---- words ----

/** Returns a number with so many digits, but all digits before the point. */
const figures = (x, digits = 5) => (Math.abs(x) >= 10 ** digits && Math.abs(x) < 1e15 ? Math.round(x) : Number(x.toPrecision(digits))).toString();
/** Largest number of classes named in a leaf; of more, the most probable ones, in the order of the classes. */
const MOST_CLASSES = 6;
const shown = p => p > 0 && p < 0.005 ? "<0.01" : p < 1 && p > 0.995 ? ">0.99" : p.toFixed(2);

function dateWords(x, kind) {
  const date = new Date((kind === "day" ? Math.floor(x) : x) * 864e5).toISOString();
  return kind === "day" ? date.slice(0, 10) : date.slice(0, 16).replace("T", " ") + (kind === "time" ? "" : " UTC");
}

/** Returns, by feature, the categories that rows on one side of a split can have, of those `possible` above. */
function narrowed(split, features, left, possible) {
  const [feature, cut] = split;
  if (!Array.isArray(cut)) return possible;
  const known = possible.get(feature) || features[feature].categories.map((_, j) => j);
  return new Map(possible).set(feature, known.filter(j => cut.includes(j) === left));
}

/** Returns the condition on rows of one side of a split, with the categories that are `possible` there. */
function sideWords(split, features, left, possible = new Map()) {
  const feature = features[split[0]], cut = split[1];
  if (Array.isArray(cut)) {
    const known = possible.get(split[0]);
    const names = feature.categories.filter((_, j) => cut.includes(j) === left && (!known || known.includes(j)));
    return `${feature.name} in {${names.join(", ")}}`;
  }
  const missing = feature.missing && (split[2] === 1) === left;
  if (cut === null) return `${feature.name} is ${missing ? "missing" : "known"}`;
  const threshold = Number(cut);
  if (feature.kind === "truth value" && threshold >= 0 && threshold < 1) return `${feature.name} = ${left ? "no" : "yes"}`;
  const more = missing && feature.twin ? " or missing" : "";
  return `${feature.name} ${left ? "≤" : ">"} ${split[3]}${more}`;
}

if (typeof module !== "undefined") module.exports = {decoded, leavesOf, meanOf, quantileOf, credibleEnds, mixtureBelow, nodesOf, narrowed, sideWords};
else start();

// ---- the page ----

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const {features, splits, leaves} = data.trees, trees = data.trees.trees.map(decoded);
  const find = id => document.getElementById(id);
  const state = {path: 0, at: 0, row: data.trees.start.slice(), asked: false};
  document.documentElement.classList.add("js");

  /** Returns an element with text, which is never read as markup, and attributes by name. */
  function make(name, text, attributes = {}, ...inside) {
    const element = document.createElement(name);
    if (text !== "") element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...inside);
    return element;
  }
  const inSvg = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const precise = x => figures(x, leaves.digits);
  const chosen = () => trees.filter(tree => state.path === 0 || tree.held.has(state.path));
  const meter = p => {
    const bar = make("i", "");
    bar.style.width = `${100 * p}%`;
    return make("span", "", {class: "meter"}, bar);
  };

  // -- the icicle: one box is in the tab order, arrows go on from it

  const boxes = [...document.querySelectorAll("#icicle .box")];
  boxes.forEach((box, i) => {
    box.setAttribute("role", "button");
    box.setAttribute("tabindex", i === 0 ? 0 : -1);
    box.setAttribute("aria-pressed", i === 0);
    box.setAttribute("aria-label", box.querySelector("title").textContent);
    box.addEventListener("click", () => choose(i));
    box.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") choose(i);
      else if (event.key === "Escape") choose(0);
      else if (!goTo(i, event.key)) return;
      event.preventDefault();
    });
  });
  function goTo(i, key) {
    const parent = data.paths[i][0], beside = boxes.map((_, j) => j).filter(j => data.paths[j][0] === parent);
    const place = beside.indexOf(i);
    const next = {
      ArrowLeft: parent, ArrowUp: beside[place - 1], ArrowDown: beside[place + 1],
      ArrowRight: data.paths.findIndex(path => path[0] === i),
    }[key];
    if (next === undefined || next < 0) return key.startsWith("Arrow");
    boxes[i].setAttribute("tabindex", -1);
    boxes[next].setAttribute("tabindex", 0);
    boxes[next].focus();
    return true;
  }
  function choose(i) {
    state.path = state.path === i ? 0 : i;
    state.at = 0;
    boxes.forEach((box, j) => box.setAttribute("aria-pressed", j === state.path));
    find("clear").hidden = state.path === 0;
    const [, way, p] = data.paths[state.path];
    find("said").textContent = state.path === 0 ? `All trees: ${trees.length} in this page.`
      : `Trees with the path ${way}: ${shown(p)} of all draws, ${chosen().length} of the ${trees.length} trees in this page.`;
    showTree();
    answer();
  }
  find("clear").addEventListener("click", () => { choose(0); boxes[0].focus(); });

  // -- trees to leaf through

  function nodeOf(tree, i, words, possible) {
    const item = make("li", "", {}, make("span", words, {class: "said"}));
    if (tree.nodes[i] >= 0) {
      const split = splits[tree.nodes[i]];
      item.append(make("ul", "", {}, ...[true, false].map(left =>
        nodeOf(tree, left ? i + 1 : tree.right[i], sideWords(split, features, left, possible), narrowed(split, features, left, possible)))));
      return item;
    }
    const leaf = -1 - tree.nodes[i];
    item.append(" ", make("span", `${figures(leaves.rows[leaf])} row${leaves.rows[leaf] === 1 ? "" : "s"}`, {class: "quiet"}));
    if (leaves.values || leaves.words) item.append(" ", make("span", leafWords(leaf), {class: "value"}));
    return item;
  }
  function leafWords(leaf) {
    if (leaves.words) return leaves.words[leaf];
    const {mean} = meanOf(new Map([[leaf, 1]]), leaves, data.classes);
    if (!data.classes) return precise(mean[0]);
    const most = mean.map((_, j) => j).sort((i, j) => mean[j] - mean[i]).slice(0, MOST_CLASSES).sort((i, j) => i - j);
    return most.map(j => `${data.classes[j]}: ${mean[j].toFixed(3)}`).join(", ") + (mean.length > MOST_CLASSES ? ", …" : "");
  }
  function showTree() {
    const some = chosen(), tree = some[state.at];
    find("tree").replaceChildren();
    for (const [id, off] of [["first", state.at === 0], ["back", state.at === 0], ["next", state.at + 1 >= some.length]]) find(id).disabled = off;
    if (!tree) {
      find("which").textContent = "None of the trees in this page has the path.";
      return;
    }
    const level = tree.level === null ? "" : `, level ${tree.level} (${tree.level < data.mass ? "in" : "not in"} the ${100 * data.mass} % credible set)`;
    find("which").textContent = `Tree ${state.at + 1} of ${some.length}: ${(100 * tree.fraction).toPrecision(2)} % of the draws${tree.log_posterior === null ? "" : `, log posterior ${tree.log_posterior}`}${level}`;
    find("tree").append(make("ul", "", {class: "tree"}, nodeOf(tree, 0, "all rows", new Map())));
  }
  const leaf = step => { state.at = step === 0 ? 0 : state.at + step; showTree(); };
  find("first").addEventListener("click", () => leaf(0));
  find("back").addEventListener("click", () => leaf(-1));
  find("next").addEventListener("click", () => leaf(1));

  // -- a row

  const form = find("row");
  function field(feature, j) {
    const lacks = feature.missing ? [["", "(missing)"]] : [];
    const options = feature.kind === "nominal" ? [...feature.categories.map((name, k) => [k, name]), [-1, "(another)"]]
      : feature.kind === "level" ? [...feature.levels.map((name, k) => [k, name]), ...lacks]
      : feature.kind === "truth value" ? [[0, "no"], [1, "yes"], ...lacks] : null;
    let input;
    if (options) {
      input = make("select", "", {}, ...options.map(([value, name]) => make("option", name, {value})));
      input.value = String(state.row[j] ?? "");
    } else {
      const kind = {day: "date", time: "datetime-local", "time UTC": "datetime-local"}[feature.kind] || "number";
      input = make("input", "", kind === "number" ? {type: kind, step: "any"} : {type: kind});
      if (state.row[j] !== null) input.value = kind === "number" ? state.row[j] : dateWords(state.row[j], feature.kind === "day" ? "day" : "time").replace(" ", "T");
      if (feature.missing) input.placeholder = "missing";
    }
    input.addEventListener("input", () => {
      const text = input.value;
      state.asked = true;
      state.row[j] = text === "" ? null : input.type === "date" || input.type === "datetime-local" ? Date.parse(text + (input.type === "date" ? "" : "Z")) / 864e5 : Number(text);
      input.setAttribute("aria-invalid", text === "" && !feature.missing);
      answer();
    });
    return make("label", "", {}, make("span", feature.unit ? `${feature.name} (${feature.unit})` : feature.name), input);
  }
  if (form) form.append(...features.map(field));
  if (form) form.addEventListener("submit", event => event.preventDefault());

  function answer() {
    if (!form) return;
    const out = find("answer"), some = chosen().filter(tree => tree.weight > 0);
    boxes.forEach(box => box.classList.remove("taken"));
    const lacks = features.filter((feature, j) => state.row[j] === null && !feature.missing && feature.kind !== "nominal");
    if (lacks.length) return out.replaceChildren(make("p", `Give a value: ${lacks.map(feature => feature.name).join(", ")}.`));
    if (!some.length) return out.replaceChildren(make("p", "None of the trees that predictions are made of has the path."));
    const share = leavesOf(some, splits, state.row), {mean, sd} = meanOf(share, leaves, data.classes);
    out.replaceChildren(make("h3", "Prediction"), ...(data.classes ? classTable(share, mean, sd) : numberWords(share, mean, sd)),
      make("h3", "Its paths"), pathsTable(some));
  }
  const cells = parts => make("tr", "", {}, ...parts.map(part => typeof part === "string" ? make("td", part, {class: "n"}) : part));
  function classTable(share, mean, sd) {
    const known = leaves.expectation_kind === "beta";
    const error = j => known ? credibleEnds(share, leaves, j, data.classes).map(shown).join(" to ") : `± ${shown(sd[j])}`;
    const rows = mean.map((_, j) => cells([make("th", data.classes[j], {scope: "row", class: "name"}), make("td", "", {}, meter(mean[j])), shown(mean[j]), error(j)]));
    const note = known ? "Probabilities with 90 % credible intervals, over trees and leaf parameters." : "± is the standard deviation over trees.";
    return [make("table", "", {}, make("tbody", "", {}, ...rows)), make("p", note, {class: "quiet"})];
  }
  function numberWords(share, [mean], [sd]) {
    const credible = credibleEnds(share, leaves, 0, null);
    const error = credible ? `; it is between ${credible.map(precise).join(" and ")} with probability 0.9` : ` ± ${figures(sd)} (standard deviation over trees)`;
    const said = `Mean ${precise(mean)}${error}.`;
    if (!leaves.kind) return [make("p", said)];
    const ends = [0.05, 0.95].map(q => quantileOf(share, leaves, q));
    const interval = `A new value lies between ${ends.map(precise).join(" and ")} with probability 0.9.`;
    return [make("p", `${said} ${interval}`), densityOf(share, ends)];
  }
  function densityOf(share, ends) {
    const counts = leaves.kind !== "student", [low, high] = [0.005, 0.995].map(q => quantileOf(share, leaves, q));
    const n = counts ? Math.min(high - low + 1, 200) : 160, step = counts ? Math.ceil((high - low + 1) / n) : (high - low) / (n - 1);
    const at = Array.from({length: n}, (_, i) => low + i * step);
    const height = at.map(y => {
      if (counts) return mixtureBelow(share, leaves, y + step - 1) - mixtureBelow(share, leaves, y - 1);
      let sum = 0;
      for (const [leaf, p] of share) sum += p * DISTRIBUTIONS.student.density(leaves.distributions[leaf], y);
      return sum;
    });
    const most = Math.max(...height), x = y => 10 + 500 * (y - low) / ((high - low) || 1), y = h => 100 - 90 * h / most;
    const svg = inSvg("svg", {class: "trace", viewBox: "0 0 520 122", role: "img", "aria-label": "Distribution of a new value"});
    svg.append(inSvg("rect", {class: "c0", x: x(ends[0]), y: 6, width: Math.max(x(ends[1]) - x(ends[0]), 1), height: 94}));
    if (counts) at.forEach((v, i) => svg.append(inSvg("rect", {class: "k0", x: x(v) - 1, y: y(height[i]), width: 2, height: 100 - y(height[i])})));
    else svg.append(inSvg("polyline", {class: "k0", points: at.map((v, i) => `${x(v).toFixed(1)},${y(height[i]).toFixed(1)}`).join(" ")}));
    for (const [v, anchor] of [[low, "start"], [high, "end"]]) {
      const text = inSvg("text", {x: x(v), y: 116, "text-anchor": anchor});
      text.textContent = precise(v);
      svg.append(text);
    }
    return svg;
  }
  /** Returns the conditions of a path by feature, without those that a later one implies. */
  function pathWords(tree, nodes) {
    const conditions = new Map();
    let possible = new Map();
    nodes.slice(0, -1).forEach((node, i) => {
      const split = splits[tree.nodes[node]], left = nodes[i + 1] === node + 1;
      const kind = Array.isArray(split[1]) ? "set" : split[1] === null ? "missing" : left ? "upper" : "lower";
      const key = `${split[0]} ${kind}`, before = conditions.get(key), words = sideWords(split, features, left, possible);
      possible = narrowed(split, features, left, possible);
      if (before && (kind === "upper" || kind === "lower") && (left ? Number(before.split[1]) <= Number(split[1]) : Number(before.split[1]) >= Number(split[1]))) return;
      conditions.set(key, {split, words});
    });
    return [...conditions.values()].map(({words}) => words).join(", ") || "all rows";
  }
  function pathsTable(some) {
    const total = some.reduce((sum, tree) => sum + tree.weight, 0), paths = new Map();
    for (const tree of some) {
      const nodes = nodesOf(tree, splits, state.row), words = pathWords(tree, nodes), leaf = -1 - tree.nodes[nodes.at(-1)];
      const line = paths.get(words) || {share: 0, leaf};
      line.share += tree.weight / total;
      paths.set(words, line);
      if (state.asked) for (const node of nodes) if (tree.path[node] > 0) boxes[tree.path[node]].classList.add("taken");
    }
    const order = [...paths].sort((one, other) => other[1].share - one[1].share), most = order.slice(0, 8);
    const rows = most.map(([words, line]) => cells([make("td", words, {class: "way"}), make("td", "", {}, meter(line.share)), shown(line.share), leafWords(line.leaf)]));
    const head = make("tr", "", {}, ...["path", "", "trees", "leaf predicts"].map(name => make("th", name, {scope: "col"})));
    const rest = order.length > 8 ? [make("p", `and ${order.length - 8} more paths.`, {class: "quiet"})] : [];
    return make("div", "", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Paths of the row"}, make("table", "", {}, make("thead", "", {}, head), make("tbody", "", {}, ...rows)), ...rest);
  }

  choose(0);
}
