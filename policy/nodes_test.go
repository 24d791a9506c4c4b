package policy_test

import (
	"testing"

	"github.com/taskengine/taskengine/policy"
)

func TestANodeMatchesIfItHasOneOfTheValuesOfEachLabel(t *testing.T) {
	labels := map[string]string{"zone": "eu", "gpu": "true", "name": "a label"}
	for _, c := range []struct {
		nodes policy.Nodes
		want  bool
		text  string
	}{
		{nil, true, ""},
		{policy.Nodes{"zone": {"eu"}}, true, "zone=eu"},
		{policy.Nodes{"zone": {"us", "eu"}, "gpu": {"true"}}, true, "gpu=true, zone=us|eu"},
		{policy.Nodes{"zone": {"us"}, "gpu": {"true"}}, false, "gpu=true, zone=us"},
		{policy.Nodes{"disk": {"ssd"}}, false, "disk=ssd"},
		{policy.Nodes{"zone": {}}, false, "zone="},
		{policy.Nodes{"name": {"n1", "n2"}}, true, "name=n1|n2"},
		{policy.Nodes{"name": {"a label"}}, false, "name=a label"},
	} {
		if got := c.nodes.Match("n1", labels); got != c.want {
			t.Errorf("%q matches: %v, want %v", c.text, got, c.want)
		}
		if got := c.nodes.String(); got != c.text {
			t.Errorf("it is shown as %q, want %q", got, c.text)
		}
	}
}
