package node

import (
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/policy"
)

func TestHandlersOfTypesForOtherNodesAreNotStarted(t *testing.T) {
	eu := policy.Type{Nodes: policy.Nodes{"zone": {"eu"}}}
	c := config.Default()
	c.Coordination.Labels = map[string]string{"zone": "us"}
	for _, name := range []string{"both", "eu", "idle", "share"} {
		c.Handlers[name] = config.Handler{Plugin: new(config.Plugin)}
	}
	c.Handlers["split"] = config.Handler{Split: map[string]int{"share": 1}}
	c.Types = map[string]config.Type{
		"a": {Handler: "both"}, "b": {Handler: "both", Type: eu}, "c": {Handler: "eu", Type: eu}, "d": {Handler: "split", Type: eu},
	}
	here := placed(c, "n1", slog.New(slog.DiscardHandler))
	if got := slices.Sorted(maps.Keys(here.Handlers)); !slices.Equal(got, []string{"both", "idle"}) {
		t.Errorf("the handlers are %v", got)
	}
	c.Coordination.Labels["zone"] = "eu"
	if here := placed(c, "n1", slog.New(slog.DiscardHandler)); len(here.Handlers) != 5 {
		t.Errorf("in the zone, the handlers are %v", slices.Sorted(maps.Keys(here.Handlers)))
	}
}
