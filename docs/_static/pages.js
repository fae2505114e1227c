// A button on every block of code that copies it.
document.addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return;
  for (const block of document.querySelectorAll("div.highlight-python pre, div.highlight-console pre, div.highlight-toml pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.textContent.replace(/\n$/, ""));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.parentElement.append(button);
  }
});
// Pictures that are wider than most lead to a page of their own, and in narrow windows pages.css lets them scroll.
window.addEventListener("load", () => {
  for (const picture of document.querySelectorAll("article p > img")) {
    if (picture.naturalWidth <= 560) continue;
    picture.parentElement.classList.add("wide");
    const link = document.createElement("a");
    link.href = picture.src;
    link.title = "Show this picture in its full size";
    picture.replaceWith(link);
    link.append(picture);
  }
});
