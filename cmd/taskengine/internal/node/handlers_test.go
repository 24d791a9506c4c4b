package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/taskengine/taskengine/config"
)

func TestAHandlerThatMayBeGivenTasksOfAtMostOnceIsKnown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "taskengine.yaml")
	if err := os.WriteFile(file, []byte(`
handlers:
  least: {exec: [a]}
  most: {exec: [a]}
  shared: {exec: [a]}
  both: {split: {shared: 1, least: 0}}
  unused: {exec: [a]}
types:
  mail: {handler: least}
  pay: {handler: most, delivery: at_most_once}
  send: {handler: both, delivery: at_most_once}
  news: {handler: unused}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"least": true, "most": true, "shared": true, "unused": false} {
		if got := atMostOnce(c, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
