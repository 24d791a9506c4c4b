package cli

import (
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// partial says which nodes did not answer, and returns the exit code of an answer that may lack something; nil if all have
// answered. With JSON and YAML the last line of a list says so, too.
func (a *app) partial(silent []*taskenginev1.SilentNode, isList bool) error {
	if len(silent) == 0 {
		return nil
	}
	if a.output.takesMore() && isList {
		if err := a.printJSON(messageJSON(&taskenginev1.ListWorkersResponse{Silent: silent}).without("workers")); err != nil {
			return err
		}
	}
	for _, s := range silent {
		a.note("%s did not answer, and what it alone knows is missing: %s", clean(silentName(s)), clean(s.GetProblem()))
	}
	return exit.With(exit.Partial, nil)
}

// silentName names a node that did not answer.
func silentName(s *taskenginev1.SilentNode) string {
	switch {
	case s.GetNode() == "":
		return "other nodes"
	case s.GetAddress() == "":
		return "node " + s.GetNode()
	}
	return "node " + s.GetNode() + " at " + s.GetAddress()
}
