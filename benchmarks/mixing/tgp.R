# One chain of tgp's bcart, run by single_tree_programs.py in a folder with X.csv, y.csv and XX.csv.
# Arguments: burn-in, end and distance of draws, alpha and beta of the tree prior, seed.
library(tgp)
given <- as.numeric(commandArgs(trailingOnly = TRUE))
X <- as.matrix(read.csv("X.csv", header = FALSE))
y <- scan("y.csv", quiet = TRUE)
XX <- as.matrix(read.csv("XX.csv", header = FALSE))
run <- function(...) {
  set.seed(given[6])
  bcart(X = X, Z = y, tree = given[4:5], BTE = given[1:3], R = 1, pred.n = FALSE, verb = 0, ...)
}
# timed without traces, which tgp writes to text files and reads again
began <- proc.time()
run()
spent <- proc.time() - began
write.table(t(c(spent[["user.self"]] + spent[["sys.self"]], spent[["elapsed"]])), "seconds.csv",
            sep = ",", row.names = FALSE, col.names = FALSE)
trace <- run(XX = XX, trace = TRUE)$trace
# the mean of a leaf and its variance, up to scale, at each row of XX
told <- function(name) sapply(trace$XX, function(one) one[[name]])
keep <- function(values, file) write.table(values, file, sep = ",", row.names = FALSE, col.names = FALSE)
keep(told("beta0"), "mean.csv")
keep(rowMeans(log(told("s2"))), "scale.csv")
leaves <- trace$post$leaves
keep(if (is.null(leaves)) apply(told("beta0"), 1, function(row) length(unique(row))) else leaves, "leaves.csv")
