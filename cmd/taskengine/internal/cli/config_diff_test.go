package cli

import (
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

func TestChangesOfAConfigurationSayWhatTheyTake(t *testing.T) {
	before := write(t, "before.yaml", "limits: {a: {max: 1}}\nhandlers: {h: {exec: [/bin/cat]}}\ntypes: {x: {handler: h}}\n")
	after := write(t, "taskengine.yaml", "limits: {a: {max: 2}}\nhandlers: {h: {exec: [/bin/cat]}}\ntypes: {x: {handler: h, weight: 3}}\nschedules: {s: {every: 1h, type: x}}\n")
	r := cli(t, nil, "", "config", "diff", before, "-c", after)
	if r.code != 0 || !strings.Contains(r.stdout, "limits.a.max") || !strings.Contains(r.stdout, "restart") || !strings.Contains(r.stdout, "reload") {
		t.Errorf("it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r = cli(t, nil, "", "config", "diff", before, "-c", after, "-o", "json")
	if r.code != 0 || !strings.Contains(r.stdout, `{"key":"limits.a.max","before":"1","after":"2","restart":false}`) || !strings.Contains(r.stdout, `{"key":"types.x.weight","before":"1","after":"3","restart":true}`) {
		t.Errorf("in JSON it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r := cli(t, nil, "", "config", "diff", write(t, "wrong.yaml", "x: 1\n"), "-c", after); r.code != int(exit.Config) {
		t.Errorf("with an invalid file it ends with %d: %s", r.code, r.stderr)
	}
}
