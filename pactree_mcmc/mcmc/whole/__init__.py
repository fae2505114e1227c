"""The default run of whole tables: tuning in rounds, the density and graph it fits, and the evidence they give."""
