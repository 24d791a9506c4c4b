package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Node is a node that runs now.
type Node struct{ Name, Version string }

// Nodes is the finding for the nodes that run now, and an upgrade to the version own. A cluster has nodes of two versions at most:
// each works with the tables of its version and of its neighbours.
func Nodes(own string, all []Node) (found Findings) {
	const check = "nodes"
	names := make(map[string][]string) // by version
	for _, n := range all {
		names[n.Version] = append(names[n.Version], n.Name)
	}
	var parts, others []string
	for _, version := range slices.Sorted(maps.Keys(names)) {
		of := version
		switch version {
		case own:
			of = "this version"
		case "":
			of = "an unknown version"
		}
		if version != own {
			others = append(others, version)
		}
		slices.Sort(names[version])
		parts = append(parts, fmt.Sprintf("%s: %s", of, strings.Join(names[version], ", ")))
	}
	what := strings.Join(parts, "; ")
	switch {
	case len(all) == 0:
		found.add(OK, check, "none runs", "")
	case len(names[""]) > 0:
		found.add(Unknown, check, what, "look at taskengine version --server of each")
	case len(others) == 0:
		found.add(OK, check, "all run this version", "")
	case len(others) > 1:
		found.add(No, check, "several other versions run ("+what+")", "bring all nodes to one version first: an earlier upgrade has not ended")
	default:
		found.add(OK, check, what+"; they can run beside nodes of this version", "")
	}
	return found
}
