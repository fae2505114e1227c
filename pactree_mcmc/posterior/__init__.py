"""The methods common to all posteriors, the sampled posterior, and the diagnosis of its draws."""
