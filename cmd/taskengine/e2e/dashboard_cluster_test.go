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
handlers:
  copy: {exec: [/bin/cat]}
  hold: {exec: [/bin/sh, -c, 'while [ -e %q ]; do /bin/sleep 0.1; done']}
limits: {shared: {max: 24, scope: cluster}}
types: {copy: {}, hold: {weight: 2, limits: shared}}
`

// One of three nodes is killed, and started again, while pages of it and of another node are open.
func TestPagesOfAClusterSayWhichNodeDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	file := write(t, "taskengine.yaml", fmt.Sprintf(clusterPagesConfig, storageOf(t, "postgres"), write(t, "held", "")))
	n := nodes(t, file, 3)
	n[1].ok(t, "task", "add", "copy", "--data", "1", "--wait")
	const all = `document.querySelectorAll("#nodes tbody tr").length === 3`
	const isStale = `document.body.classList.contains("stale") && document.querySelector("#stale").innerText.includes("Stale since")`
	overview, other := b.Open(t, "http://"+n[0].api+"/ui/"), b.Open(t, "http://"+n[1].api+"/ui/")
	list := b.Open(t, "http://"+n[0].api+"/ui/tasks?q=type%3Dcopy")
	overview.Until(all)
	other.Until(all)
	list.Until(`document.querySelectorAll("table[data-rows] tbody tr").length === 1`)
	plan := planOfThree(t, b, n)

	n[0].signal(t, syscall.SIGKILL)
	<-n[0].ended
	overview.Until(isStale)
	list.Until(isStale)
	overview.Until(all) // the old numbers stay
	list.Until(`document.querySelectorAll("table[data-rows] tbody tr").length === 1`)
	other.Until(`document.querySelector("#notes").innerText.includes("Node n0 does not answer")`)
	plan.Until(`document.querySelector("#notes").innerText.includes("Node n0 does not answer") && !Object.keys(` + usedShares + `).some((name) => name.endsWith(" of n0"))`)
	plan.Until(`((used) => used["limit shared of all"] > 0 && used["limit shared of all"] === used["slots of n1"] + used["slots of n2"])(` + usedShares + `)`)
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
	plan.Until(`!document.querySelector("#notes").innerText.includes("answer") && "slots of n0" in ` + usedShares)
	if faults := other.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}

// usedShares has the numbers in use of the page Plan, by what they are of.
const usedShares = `Object.fromEntries([...document.querySelectorAll("#bounds tbody tr")].map((r) => [r.cells[0].innerText + " of " + r.cells[1].innerText, Number(r.cells[2].innerText)]))`

// planOfThree adds tasks of two slots each, and opens the page Plan. It shows how many slots they take on each node, and on all of them.
func planOfThree(t *testing.T, b *browsertest.Browser, n []*running) *browsertest.Page {
	t.Helper()
	for i := range 6 {
		n[i%3].ok(t, "task", "add", "hold")
	}
	of := make(map[string]int) // slots, by node
	becomes(t, "run of all tasks", func() bool {
		clear(of)
		for _, task := range n[0].objects(t, "task", "list", "--where", "type=hold state=processing") {
			of[fmt.Sprint(task["node"])] += 2
		}
		return of["n0"]+of["n1"]+of["n2"] == 12
	})
	plan := b.Open(t, "http://"+n[1].api+"/ui/plan")
	plan.Until(fmt.Sprintf(`((used) => used["slots of n0"] === %d && used["slots of n1"] === %d && used["slots of n2"] === %d && used["limit shared of all"] === 12)(%s)`, of["n0"], of["n1"], of["n2"], usedShares))
	return plan
}
