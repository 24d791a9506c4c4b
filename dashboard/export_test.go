package dashboard

// ActionPaths returns the paths of all forms that change something.
func ActionPaths() (all []string) {
	for _, a := range actions() {
		all = append(all, a.path)
	}
	return all
}
