package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// paysAtOnce is how many tasks of type pay may run at once in the cluster.
const paysAtOnce = 2

// pausedConfig makes nodes with tasks that wait for the gate of their node. The result of a task, which the store
// accepts once, says which node made it, and when.
const pausedConfig = `
node: {slots: 20, drain_timeout: 50s}
storage: %s
coordination: {lease: 4s}
handlers:
  pay:
    exec: [/bin/sh, -c, 'from=$(date +%%s%%N); true < "$GATE.pipe"; sleep 0.03; : > "$GATE.$TASKENGINE_TASK_ID"; echo "{\"node\": \"$NODE\", \"from\": $from, \"to\": $(date +%%s%%N)}"']
    env: {GATE: none, NODE: none, PATH: %q}
types:
  pay: {limits: few}
  free: {handler: pay}
limits:
  few: {max: %d, scope: cluster}
`

// effect is the effect of a task, by its result.
type effect struct {
	Node     string
	From, To int64 // nanoseconds since 1970
}

// payers are nodes on one database that run tasks of type pay.
type payers struct {
	t        *testing.T
	database string
	file     string
	nodes    []*running
	gates    []gate
}

func newPayers(t *testing.T) *payers {
	t.Helper()
	p := &payers{t: t, database: tables(t)}
	p.file = write(t, "taskengine.yaml", fmt.Sprintf(pausedConfig, onPostgres(p.database), os.Getenv("PATH"), paysAtOnce))
	return p
}

// join starts a node. Its tasks return at once, or when its gate is opened.
func (p *payers) join(isOpen bool) *running {
	p.t.Helper()
	i, g := len(p.nodes), newGate(p.t)
	if isOpen {
		g.open(p.t)
	}
	p.gates = append(p.gates, g)
	p.nodes = append(p.nodes, nodeOf(p.t, p.file, i, "handlers.pay.env.GATE="+string(g), fmt.Sprintf("handlers.pay.env.NODE=n%d", i)))
	return p.nodes[i]
}

// add adds tasks, and returns their ids.
func (p *payers) add(at *running, typ string, count int) (ids []string) {
	p.t.Helper()
	q := &taskenginev1.SubmitRequest{}
	for range count {
		q.Tasks = append(q.Tasks, &taskenginev1.NewTask{Type: typ})
	}
	res, err := p.client(at).Submit(p.t.Context(), q)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, r := range res.GetReceipts() {
		ids = append(ids, r.GetId())
	}
	return ids
}

func (p *payers) client(at *running) taskenginev1connect.TaskServiceClient {
	return taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+at.api)
}

// effects waits until tasks are done, and returns their effects.
func (p *payers) effects(at *running, ids []string) (all map[string]effect) {
	p.t.Helper()
	at.ok(p.t, append([]string{"task", "wait", "--timeout", "2m"}, ids...)...)
	all = make(map[string]effect)
	for _, id := range ids {
		res, err := p.client(at).Get(p.t.Context(), &taskenginev1.GetRequest{Id: id})
		if err != nil {
			p.t.Fatal(err)
		}
		var e effect
		if err := json.Unmarshal(res.GetTask().GetResult(), &e); err != nil {
			p.t.Fatalf("the result of a task is %q: %v", res.GetTask().GetResult(), err)
		}
		all[id] = e
	}
	return all
}

// has waits until a query of the database has an answer.
func (p *payers) has(want, sql string) {
	p.t.Helper()
	for begin := time.Now(); query(p.t, p.database, sql) != want; time.Sleep(askEvery) {
		if time.Since(begin) > limit {
			p.t.Fatalf("%s does not become %s", sql, want)
		}
	}
}

// areOf reports whether a node has made some of the effects.
func areOf(node string, effects map[string]effect) bool {
	for _, e := range effects {
		if e.Node == node {
			return true
		}
	}
	return false
}

// peak returns how many effects were made at once.
func peak(effects map[string]effect) (most int) {
	type point struct {
		at    int64
		delta int
	}
	var points []point
	for _, e := range effects {
		points = append(points, point{e.From, +1}, point{e.To, -1})
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	running := 0
	for _, one := range points {
		running += one.delta
		most = max(most, running)
	}
	return most
}

const (
	holding    = "select count(*) from taskengine.tasks where type = 'pay' and state = 'processing'"
	heldAgain  = holding + " and attempt = 2"
	healerIsN0 = `select m.name = 'n0' from taskengine.leader l join taskengine.member m using (session)
		where l.role = 'healer' and m.died_at is null`
)

// startPayers starts three nodes, and returns the ids of the tasks of the first one. This node has every role, and its tasks
// have all permits. Tasks of the others return at once, or when the gates of their nodes are opened.
func startPayers(t *testing.T, areOpen bool) (p *payers, held []string) {
	t.Helper()
	p = newPayers(t)
	held = p.add(p.join(false), "pay", paysAtOnce)
	p.has(fmt.Sprint(paysAtOnce), holding)
	p.join(areOpen)
	p.join(areOpen)
	p.has("true", healerIsN0)
	p.has(fmt.Sprint(paysAtOnce), holding)
	return p, held
}

// A node stands still, with its handlers, for longer than its lease, while it has all permits of a limit and all roles.
func TestANodeThatStandsStillIsReplacedAndComesBack(t *testing.T) {
	t.Parallel()
	p, ids := startPayers(t, true)
	victim, other := p.nodes[0], p.nodes[1]
	ids = append(ids, p.add(other, "pay", 20)...)
	pids := append([]int{victim.cmd.Process.Pid}, victim.descendants()...)
	signalAll(t, pids, syscall.SIGSTOP)
	all := p.effects(other, ids)
	p.has("false", healerIsN0)
	p.gates[0].open(t)
	signalAll(t, pids, syscall.SIGCONT)
	for begin := time.Now(); !areOf("n0", all); {
		if time.Since(begin) > limit {
			t.Fatal("it runs nothing any more")
		}
		maps.Copy(all, p.effects(other, p.add(victim, "pay", 20)))
	}
	p.ends(victim)
	for id, e := range p.effects(other, ids) {
		if e != all[id] || e.Node == "n0" {
			t.Errorf("the effect of task %s was %v, and is %v after the pause", id, all[id], e)
		}
	}
	if most := peak(all); most > paysAtOnce {
		t.Errorf("%d tasks had effects at once, of %d allowed", most, paysAtOnce)
	}
}

// The handlers return while their node stands still. When it goes on, their tasks run on other nodes.
func TestLateResultsOfANodeThatStoodStillCountForNothing(t *testing.T) {
	t.Parallel()
	p, ids := startPayers(t, false)
	victim, other := p.nodes[0], p.nodes[1]
	pids := []int{victim.cmd.Process.Pid}
	signalAll(t, pids, syscall.SIGSTOP)
	p.has(fmt.Sprint(paysAtOnce), heldAgain)
	p.gates[0].open(t)
	for _, id := range ids {
		awaitFile(t, string(p.gates[0])+"."+id)
	}
	signalAll(t, pids, syscall.SIGCONT)
	const freeRan = "select count(*) > 0 from taskengine.tasks where type = 'free' and state = 'done'"
	for begin := time.Now(); query(t, p.database, freeRan) != "true"; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatal("it does not come back")
		}
		p.add(victim, "free", 3) // the other nodes do not end theirs
	}
	p.ends(victim)
	p.has(fmt.Sprint(paysAtOnce), heldAgain)
	for _, g := range p.gates[1:] {
		g.open(t)
	}
	for id, e := range p.effects(other, ids) {
		if e.Node == "n0" {
			t.Errorf("the effect of task %s is %v", id, e)
		}
	}
}

// ends makes a node end its tasks.
func (p *payers) ends(n *running) {
	p.t.Helper()
	n.signal(p.t, syscall.SIGTERM)
	if code := n.exit(p.t); code != exitOK {
		p.t.Errorf("the node ended with %d", code)
	}
}

// descendants returns the processes that the node has started, and their descendants.
func (n *running) descendants() []int {
	parents := make(map[int]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, _ := os.ReadFile(file)
		pid, rest, _ := bytes.Cut(text, []byte(" "))
		_, rest, _ = bytes.Cut(rest, []byte(") "))
		if fields := strings.Fields(string(rest)); len(fields) > 1 {
			child, _ := strconv.Atoi(string(pid))
			parents[child], _ = strconv.Atoi(fields[1])
		}
	}
	var out []int
	for pid := range parents {
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == n.cmd.Process.Pid {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}
