//go:build !race

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Of all tasks of the night, so many end with an error.
const (
	nightTasks = 2000
	atTheBank  = 500 // of the bank that is down
	declined   = 300 // of cards that no retry helps
)

// nightConfig wants a token of each caller. A bank that is down costs a payment its two attempts.
const nightConfig = `
storage: %s
node: {slots: 20}
coordination: {lease: 10s}
api: {tokens: %q}
handlers:
  bank: {http: {url: %q}}
types:
  pay: {handler: bank, retry: {max: 2, backoff: {fixed: [10ms]}}}
`

// bank is the server of another company. A payment that it takes is paid.
type bank struct {
	mu   sync.Mutex
	isUp bool        // guarded by mu
	asks map[int]int // guarded by mu: requests for a payment
	paid map[int]int // guarded by mu: how often it was paid
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var payment struct {
		N    int    `json:"n"`
		Bank string `json:"bank"`
	}
	if err := json.NewDecoder(r.Body).Decode(&payment); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asks[payment.N]++
	switch {
	case payment.Bank == "acme" && !b.isUp:
		http.Error(w, fmt.Sprintf("no connection to 10.0.%d.%d for payment %d", payment.N/250, payment.N%250, payment.N), http.StatusServiceUnavailable)
	case payment.Bank == "stolen":
		http.Error(w, fmt.Sprintf("card %d is declined", payment.N), http.StatusUnprocessableEntity)
	default:
		b.paid[payment.N]++
	}
}

// night is one or more nodes at three in the morning.
type night struct {
	nodes []*running
	bank  *bank
	ann   []string // environment of a person with the token ann
}

func newNight(t *testing.T, driver string, count int) *night {
	t.Helper()
	n := &night{bank: &bank{asks: make(map[int]int), paid: make(map[int]int)}}
	web := httptest.NewServer(n.bank)
	t.Cleanup(web.Close)
	file := write(t, "taskengine.yaml", fmt.Sprintf(nightConfig, storageOf(t, driver), filepath.Join(t.TempDir(), "tokens.json"), web.URL))
	r := cli(t, nil, "", "token", "create", "ann", "-c", file, "--role", "operate", "--role", "submit")
	if r.code != exitOK {
		t.Fatalf("create a token: %+v", r)
	}
	n.ann = []string{"TASKENGINE_TOKEN=" + strings.TrimSpace(r.stdout)}
	n.nodes = nodes(t, file, count)
	var lines strings.Builder
	for i := range nightTasks {
		name := "other"
		switch {
		case i < atTheBank:
			name = "acme"
		case i < atTheBank+declined:
			name = "stolen"
		}
		fmt.Fprintf(&lines, `{"type": "pay", "data": {"n": %d, "bank": %q}, "headers": {"tenant": "t%d"}}`+"\n", i, name, i%10)
	}
	if r := n.run(t, lines.String(), "task", "add", "--file", "-"); r.code != exitOK {
		t.Fatalf("add tasks: %+v", r)
	}
	if r := n.run(t, "", "task", "wait", "--type", "pay", "--timeout", "2m"); r.code != exitOK {
		t.Fatalf("wait for tasks: %+v", r)
	}
	return n
}

// run runs a command of ann at the last node.
func (n *night) run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return cli(t, append([]string{"TASKENGINE_ADDRESS=" + n.nodes[len(n.nodes)-1].api}, n.ann...), stdin, args...)
}

// ask is run for a command that succeeds, and returns its answers.
func (n *night) ask(t *testing.T, args ...string) []object {
	t.Helper()
	r := n.run(t, "", append(args, "-o", "json")...)
	if r.code != exitOK {
		t.Fatalf("%s ends with %d: %s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return parse(t, r.stdout)
}

// TestTheTasksOfOneErrorAreFoundUnderstoodAndRunAgain is a night on call: of many failed payments those of a bank that was down
// run again, slowly, and once. With several nodes, one is stopped all the while.
func TestTheTasksOfOneErrorAreFoundUnderstoodAndRunAgain(t *testing.T) {
	t.Parallel()
	for driver, count := range map[string]int{"pebble": 1, "postgres": 3} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			n := newNight(t, driver, count)
			if count > 1 {
				n.nodes[0].signal(t, syscall.SIGSTOP)
				defer n.nodes[0].signal(t, syscall.SIGCONT)
			}
			n.story(t)
		})
	}
}

// story is that of the person: find, understand, mend, run again slowly, and look who did it.
func (n *night) story(t *testing.T) {
	kind := n.find(t)
	where := "state=error error.kind=" + kind
	one := n.ask(t, "task", "list", "--where", where+" header.tenant=t7", "--limit", "1")[0]
	if text := fmt.Sprint(n.ask(t, "task", "get", fmt.Sprint(one["id"]))[0]["error"]); !strings.Contains(text, "no connection to 10.0.") {
		t.Errorf("the error of a task is %q", text)
	}
	if would := fmt.Sprint(n.ask(t, "task", "resume", "--where", where, "--dry-run")); !strings.Contains(would, fmt.Sprint(atTheBank)) {
		t.Errorf("a dry run says %s", would)
	}

	n.bank.mu.Lock()
	n.bank.isUp = true
	n.bank.mu.Unlock()
	n.ask(t, "task", "resume", "--where", where, "--rate", "250/s", "--name", "night", "--detach")
	n.ask(t, "bulk", "wait", "night")
	if r := n.run(t, "", "task", "wait", "--type", "pay", "--timeout", "2m"); r.code != exitOK {
		t.Fatalf("wait for tasks: %+v", r)
	}
	n.ask(t, "task", "fail", "--where", "state=error", "--reason", "by mistake", "--name", "slip")
	n.ask(t, "bulk", "undo", "slip")
	n.verify(t, fmt.Sprint(one["id"]))
}

// find returns the kind of the error that most tasks have.
func (n *night) find(t *testing.T) string {
	t.Helper()
	answer := n.ask(t, "errors")[0]
	kinds := answer["kinds"].([]any)
	if answer["tasks"] != float64(atTheBank+declined) || len(kinds) != 2 {
		t.Fatalf("the kinds of errors are %v", answer)
	}
	first, second := kinds[0].(map[string]any), kinds[1].(map[string]any)
	if first["tasks"] != float64(atTheBank) || !strings.HasSuffix(fmt.Sprint(first["pattern"]), "answered 503 Service Unavailable: no connection to # for payment #") || second["tasks"] != float64(declined) {
		t.Fatalf("the kinds of errors are %v and %v", first, second)
	}
	return fmt.Sprint(first["kind"])
}

// verify checks the job, the errors that remain, and that each payment was made once.
func (n *night) verify(t *testing.T, id string) {
	t.Helper()
	job := n.ask(t, "bulk", "show", "night")[0]
	if by := fmt.Sprint(job["by"]); job["phase"] != "done" || job["changed"] != float64(atTheBank) || !strings.HasPrefix(by, "ann") {
		t.Errorf("the job is %v", job)
	}
	if left := n.ask(t, "errors")[0]; left["tasks"] != float64(declined) {
		t.Errorf("the kinds of errors that are left are %v", left)
	}
	if one := n.ask(t, "task", "get", id)[0]; one["state"] != "done" || len(one["history"].([]any)) != 3 || one["history"].([]any)[2].(map[string]any)["job"] != "night" {
		t.Errorf("the task is %v", one)
	}
	n.bank.mu.Lock()
	defer n.bank.mu.Unlock()
	for i := range nightTasks {
		paid, asks := 1, 1
		switch {
		case i < atTheBank:
			asks = 3 // two attempts while it was down, and one after that
		case i < atTheBank+declined:
			paid = 0 // no retry of an answer that is permanent
		}
		if n.bank.paid[i] != paid || n.bank.asks[i] != asks {
			t.Fatalf("payment %d was paid %d times, and asked for %d times", i, n.bank.paid[i], n.bank.asks[i])
		}
	}
}
