"""What many trees say in few: consensus, credible set, modes, one small tree that predicts as they do."""
