//go:build !race

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limitConfig has a limit of one task at a time for each of the four places of a value. Its handler
// writes to a journal when it begins and when it ends, and waits for a gate between.
const limitConfig = `
node: {slots: 100}
storage: %s
handlers:
  witness:
    exec:
      - sh
      - -c
      - of="${TASKENGINE_TYPE%%%%_*} $(cat)"; echo "+1 $of" >> "$JOURNAL"; true < "$GATE.pipe"; echo "-1 $of" >> "$JOURNAL"
    env: {JOURNAL: %q, GATE: %q}
types:
  payload: {handler: witness, limits: [account]}
  header: {handler: witness, limits: [tenant]}
  ordering: {handler: witness, limits: [document]}
  key_a: {handler: witness, limits: [person]}
  key_b: {handler: witness, limits: [person]}
  key_c: {handler: witness, limits: [person]}
limits:
  account: {max: 1, per: payload.account.id}
  tenant: {max: 1, per: headers.tenant.id}
  document: {max: 1, per: ordering_key}
  person: {max: 1, per: key}
`

func TestALimitForEachValueHoldsWhereverTheValueIs(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			g := newGate(t)
			journal := filepath.Join(t.TempDir(), "journal")
			file := write(t, "taskengine.yaml", fmt.Sprintf(limitConfig, storageOf(t, driver), journal, string(g)))
			n := start(t, []string{"PATH=" + os.Getenv("PATH")}, "run", "-c", file)
			var ids []string
			for _, value := range []string{"x", "y"} {
				for i := range 3 {
					ids = append(ids, addLimited(t, n, value, i)...)
				}
			}
			verifyHeld(t, n, journal, ids)
			g.open(t)
			n.ok(t, append([]string{"task", "wait", "--timeout", "2m"}, ids...)...)
			if got := began(t, journal); got != len(ids) {
				t.Errorf("%d tasks ran, of %d", got, len(ids))
			}
			verifyLimit(t, journal, 1)
		})
	}
}

// The values of tasks that SQL adds count together with the values of tasks of the API.
func TestALimitForEachValueHoldsForTasksFromSQL(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	journal := filepath.Join(t.TempDir(), "journal")
	database := tables(t)
	file := write(t, "taskengine.yaml", fmt.Sprintf(limitConfig, onPostgres(database), journal, string(g)))
	n := start(t, []string{"PATH=" + os.Getenv("PATH")}, "run", "-c", file)
	ids := append(addLimited(t, n, "x", 0), addLimited(t, n, "y", 0)...)
	for _, value := range []string{"x", "y"} {
		for i, more := range []string{"", fmt.Sprintf(`, headers => '{"tenant.id": %q}'`, value), fmt.Sprintf(", ordering_key => '%s'", value), fmt.Sprintf(", key => '%s'", value)} {
			typ := []string{"payload", "header", "ordering", "key_b"}[i]
			ids = append(ids, query(t, database, fmt.Sprintf(`select a.id::text from taskengine.add('%s', '{"account": {"id": %q}}'%s) a`, typ, value, more)))
		}
	}
	verifyHeld(t, n, journal, ids)
	g.open(t)
	n.ok(t, append([]string{"task", "wait", "--timeout", "2m"}, ids...)...)
	if got := began(t, journal); got != len(ids) {
		t.Errorf("%d tasks ran, of %d", got, len(ids))
	}
	verifyLimit(t, journal, 1)
}

// addLimited adds a task for each of the places, with the same value. i is less than three.
func addLimited(t *testing.T, n *running, value string, i int) []string {
	t.Helper()
	data := fmt.Sprintf(`{"account": {"id": %q}}`, value)
	return []string{
		n.ok(t, "task", "add", "payload", "--data", data),
		n.ok(t, "task", "add", "header", "--data", data, "--header", "tenant.id="+value),
		n.ok(t, "task", "add", "ordering", "--data", data, "--ordering-key", value),
		n.ok(t, "task", "add", []string{"key_a", "key_b", "key_c"}[i], "--data", data, "--key", value),
	}
}

// verifyHeld waits until a task runs for each of two values at each of the four places, and looks
// that the limits hold back others. ids has at least eight tasks; each four are one for each place, and the third four have the value x.
func verifyHeld(t *testing.T, n *running, journal string, ids []string) {
	t.Helper()
	const values = 2 * 4
	for begin := time.Now(); began(t, journal) < values; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("%d tasks run, of %d values", began(t, journal), values)
		}
	}
	for i, name := range []string{"account", "tenant", "document", "person"} {
		says := "limit " + name + " for x: 1 of 1 used"
		if name == "document" { // tasks of an ordering key run one at a time, whatever its limit is
			says = "has the same ordering key and is before it"
		}
		if why := n.ok(t, "task", "why", ids[8+i]); !strings.Contains(why, says) {
			t.Errorf("it does not say %q:\n%s", says, why)
		}
	}
}

// began returns how many tasks have begun by a journal.
func began(t *testing.T, journal string) int {
	t.Helper()
	text, err := os.ReadFile(journal)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "+1 ")
}
