"""The algebras in which the recursion runs."""
