//go:build !race

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/certtest"
)

// answering is a cluster of three nodes that encrypt and want tokens. A node that is stopped remains a member for the whole test.
type answering struct {
	file  string
	nodes []*running
	env   []string // of a client with the rights of an operator
	admin []string // of one with all rights
}

func newAnswering(t *testing.T) *answering {
	t.Helper()
	a := certtest.New(t)
	own := a.Issue(t, "node", "127.0.0.1")
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	c := &answering{file: write(t, "taskengine.yaml", fmt.Sprintf(`
storage: %s
node: {slots: 10, drain_timeout: 50s}
coordination: {lease: 2m}
api: {tokens: %q, tls: {cert: %q, key: %q}, peer_tls: {ca: %q}}
handlers:
  talk: {exec: [/bin/sh, -c, 'echo hello >&2']}
  far: {remote: {}}
types: {talk: {}, shout: {handler: far}}
limits: {few: {max: 5}}
`, onPostgres(tables(t)), tokens, own.File, own.KeyFile, a.File))}
	client := func(role string) []string {
		r := cli(t, nil, "", "token", "create", role, "-c", c.file, "--role", role)
		if r.code != exitOK {
			t.Fatalf("create a token: %+v", r)
		}
		return []string{"TASKENGINE_CA=" + a.File, "TASKENGINE_TOKEN=" + strings.TrimSpace(r.stdout)}
	}
	c.env, c.admin = client("operate"), client("admin")
	c.nodes = nodes(t, c.file, 3)
	return c
}

// ask runs a command of an operator at a node. On a busy machine, a node may not answer another one in time, or learn late that
// one does not: then it asks again.
func (c *answering) ask(t *testing.T, node int, want int, args ...string) (result, []object) {
	t.Helper()
	run := func() result {
		return cli(t, append([]string{"TASKENGINE_ADDRESS=" + c.nodes[node].api}, c.env...), "", append(args, "-o", "json")...)
	}
	r := run()
	for begin := time.Now(); r.code != want && (r.code == exitOK || r.code == exitPartial) && time.Since(begin) < limit; r = run() {
		time.Sleep(askEvery)
	}
	if r.code != want {
		t.Errorf("%s ends with %d, want %d: %s%s", strings.Join(args, " "), r.code, want, r.stdout, r.stderr)
	}
	return r, parse(t, r.stdout)
}

// ids adds tasks of a type until each node has one, and returns one for each node, by what node says about it.
func (c *answering) ids(t *testing.T, node func(id string) string, args ...string) map[string]string {
	t.Helper()
	ids := make(map[string]string)
	for tries := 0; len(ids) < 3; tries++ {
		if tries == 30 { // a task runs where it is added, nearly always
			t.Fatalf("of %d tasks, nodes have %v", tries, ids)
		}
		r := cli(t, append([]string{"TASKENGINE_ADDRESS=" + c.nodes[tries%3].api}, c.env...), "", append([]string{"task", "add"}, args...)...)
		if r.code != exitOK {
			t.Fatalf("add a task: %+v", r)
		}
		id := strings.TrimSpace(r.stdout)
		ids[node(id)] = id
	}
	return ids
}

// silentNodes returns the nodes that did not answer, with what is wrong with them.
func silentNodes(all []object) string {
	var words []string
	for _, o := range all {
		list, _ := o["silent"].([]any)
		for _, s := range list {
			s := s.(map[string]any)
			words = append(words, fmt.Sprint(s["node"], ": ", s["problem"]))
		}
	}
	return strings.Join(words, "; ")
}

func TestAnyNodeAnswersForTheCluster(t *testing.T) {
	t.Parallel()
	c := newAnswering(t)
	ran := c.ids(t, func(id string) string {
		c.ask(t, 0, exitOK, "task", "wait", id, "--timeout", "1m")
		_, got := c.ask(t, 0, exitOK, "task", "get", id)
		return fmt.Sprint(got[0]["node"])
	}, "talk")
	logs := func(id string, want int) (result, []object) { return c.ask(t, 0, want, "task", "logs", id) }
	for node, id := range ran {
		if _, lines := logs(id, exitOK); len(lines) != 1 || lines[0]["message"] != "hello" || lines[0]["node"] != node {
			t.Errorf("the lines of a task of %s are %v", node, lines)
		}
	}
	reasons := func(id string) string {
		_, why := c.ask(t, 1, exitOK, "task", "why", id)
		if code := why[0]["reasons"].([]any)[0].(map[string]any)["code"]; code == "elsewhere" {
			t.Errorf("a task of %v waits because of %v", why[0]["node"], code)
		}
		return fmt.Sprint(why[0]["node"])
	}
	c.ids(t, reasons, "shout") // no worker is connected yet

	_, all := c.ask(t, 2, exitOK, "node", "list")
	shards := 0.0
	for i, n := range all {
		status, _ := n["status"].(map[string]any)
		if n["name"] != fmt.Sprint("n", i) || n["here"] != (i == 2) || status == nil || n["address"] != "https://"+c.nodes[i].api {
			t.Fatalf("node %d is %v", i, n)
		}
		shards += status["shards"].(float64)
	}
	if len(all) != 3 || shards != all[0]["status"].(map[string]any)["shards_total"] {
		t.Errorf("the nodes are %v", all)
	}
	if _, limits := c.ask(t, 0, exitOK, "limit", "list"); len(limits) != 1 || len(limits[0]["uses"].([]any)) != 3 {
		t.Errorf("the limits are %v", limits)
	}
	t.Run("workers", c.workers)
	t.Run("stopped", func(t *testing.T) { c.stopped(t, ran["n1"]) })
	t.Run("wrong address", c.wrongAddress)
	t.Run("drained and killed", c.drainedAndKilled)
}

// workers lists and drains a worker of a node at others.
func (c *answering) workers(t *testing.T) {
	w := startWorker(t, c.nodes[1].api, append([]string{"TASKENGINE_WORKER_HANDLER=far"}, c.admin...)...)
	becomes(t, "worker of another node", func() bool {
		_, all := c.ask(t, 0, exitOK, "worker", "list")
		return len(all) == 1 && all[0]["node"] == "n1"
	})
	_, all := c.ask(t, 0, exitOK, "worker", "list")
	c.ask(t, 2, exitOK, "worker", "drain", fmt.Sprint(all[0]["id"]))
	<-w.ended
	c.ask(t, 2, exitNotFound, "worker", "drain", "nobody")
}

// stopped asks while a node is alive, and does not answer.
func (c *answering) stopped(t *testing.T, id string) {
	c.nodes[1].signal(t, syscall.SIGSTOP)
	const silent = "n1: it did not answer within 3s"
	for _, args := range [][]string{{"worker", "list"}, {"limit", "list"}, {"node", "list"}, {"task", "logs", id}} {
		becomes(t, "answer that only the node that hangs is silent", func() bool { // on a busy machine others may be, too
			r, all := c.ask(t, 0, exitPartial, args...)
			return silentNodes(all) == silent && strings.Contains(r.stderr, "node n1 at https://")
		})
	}
	c.ask(t, 0, exitUnavailable, "worker", "drain", "nobody")
	c.nodes[1].signal(t, syscall.SIGCONT)
	becomes(t, "node that answers again", func() bool {
		r := cli(t, append([]string{"TASKENGINE_ADDRESS=" + c.nodes[0].api}, c.env...), "", "task", "logs", id)
		return r.code == exitOK && strings.Contains(r.stdout, "hello")
	})
}

// wrongAddress asks while a node announces the address of another one.
func (c *answering) wrongAddress(t *testing.T) {
	wrong := nodeOf(t, c.file, 3, "api.advertise="+c.nodes[0].api)
	becomes(t, "node whose address is another one's", func() bool { // it announces its address after it is a member
		_, all := c.ask(t, 1, exitPartial, "node", "list")
		said := silentNodes(all)
		return strings.Contains(said, `n3: the node "n0" answers at`) && strings.Contains(said, "api.advertise")
	})
	wrong.signal(t, syscall.SIGTERM)
	wrong.exit(t)
}

// drainedAndKilled drains a node by another one, and asks when a third one is dead.
func (c *answering) drainedAndKilled(t *testing.T) {
	c.ask(t, 0, exitNotAllowed, "node", "drain", "n1")
	r := cli(t, append([]string{"TASKENGINE_ADDRESS=" + c.nodes[0].api}, c.admin...), "", "node", "drain", "n1", "--by", "ann")
	if r.code != exitOK {
		t.Errorf("drain: %+v", r)
	}
	if code := c.nodes[1].exit(t); code != exitOK {
		t.Errorf("the drained node ends with %d", code)
	}
	c.nodes[1].says(t, `"by":"admin (says ann)"`)
	c.nodes[2].signal(t, syscall.SIGKILL)
	c.nodes[2].exit(t)
	if r, all := c.ask(t, 0, exitPartial, "node", "list"); len(all) != 3 || !strings.Contains(silentNodes(all), "n2: ") || !strings.Contains(r.stderr, "connection refused") {
		t.Errorf("with a dead node: %s%s", r.stdout, r.stderr)
	}
}
