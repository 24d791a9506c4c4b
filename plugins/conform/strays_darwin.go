package conform

// strays returns nothing: macOS shows the environment of processes to nobody. The process
// group is looked at in any case.
func strays(string) []string { return nil }
