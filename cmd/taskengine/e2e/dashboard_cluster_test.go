//go:build !race

package e2e

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/taskengine/taskengine/internal/browsertest"
)

// clusterPagesConfig keeps a node that was killed in the list of nodes for half a minute.
const clusterPagesConfig = `
storage: %s
coordination: {lease: 30s}
ui: {}
handlers: {copy: {exec: [/bin/cat]}}
types: {copy: {}}
`

// One of three nodes is killed, and started again, while pages of it and of another node are open.
func TestPagesOfAClusterSayWhichNodeDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	file := write(t, "taskengine.yaml", fmt.Sprintf(clusterPagesConfig, storageOf(t, "postgres")))
	n := nodes(t, file, 3)
	n[1].ok(t, "task", "add", "copy", "--data", "1", "--wait")
	const all = `document.querySelectorAll("#nodes tbody tr").length === 3`
	const isStale = `document.body.classList.contains("stale") && document.querySelector("#stale").innerText.includes("Stale since")`
	overview, other := b.Open(t, "http://"+n[0].api+"/ui/"), b.Open(t, "http://"+n[1].api+"/ui/")
	list := b.Open(t, "http://"+n[0].api+"/ui/tasks")
	overview.Until(all)
	other.Until(all)
	list.Until(`document.querySelectorAll("table[data-rows] tbody tr").length === 1`)

	n[0].signal(t, syscall.SIGKILL)
	<-n[0].ended
	overview.Until(isStale)
	list.Until(isStale)
	overview.Until(all) // the old numbers stay
	list.Until(`document.querySelectorAll("table[data-rows] tbody tr").length === 1`)
	other.Until(`document.querySelector("#notes").innerText.includes("Node n0 does not answer")`)
	if browsertest.Get[bool](other, isStale) {
		t.Error("a page of a node that answers says that it is stale")
	}

	startAt(t, n[0].api, []string{"PATH=/usr/bin:/bin"}, "run", "-c", file, "--set", "node.name=n0", "--set", "task_log.path="+filepath.Join(t.TempDir(), "logs"))
	n[1].ok(t, "task", "add", "copy", "--data", "2")
	const isFresh = `!document.body.classList.contains("stale") && document.querySelector("#stale").hidden`
	overview.Until(isFresh)
	list.Until(isFresh + ` && document.querySelectorAll("table[data-rows] tbody tr").length === 2`)
	const calm = `!document.querySelector("#notes").innerText.includes("answer") && ` + all
	overview.Until(calm)
	other.Until(calm)
	if faults := other.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}
