package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/server/peer"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/tasklog"
)

// staff are workers of a node.
type staff []string

func (s staff) Workers() (all []server.Worker) {
	for _, name := range s {
		all = append(all, server.Worker{ID: name, Name: name, ConnectedAt: time.Unix(1, 0)})
	}
	return all
}

func (s staff) DrainWorker(worker string) (drained []server.Worker) {
	for _, w := range s.Workers() {
		if w.Name == worker {
			drained = append(drained, w)
		}
	}
	return drained
}

// company is a cluster of nodes with stores of their own. The text of each token is its name.
type company struct {
	members []coord.Member
	apis    []*server.API
	stopped chan string // receives the names of nodes that were asked to stop
	nodes   []*node
	logs    *memory.Store           // has the logs of nodes that keep them in a store; nil if no node has it
	inStore map[string]*tasklog.Log // of such nodes, by their names
}

// join adds a node with a worker that has the name of the node; without tokens it wants none.
func (c *company) join(t *testing.T, secrets coord.Config, name string, tokens ...access.Token) {
	t.Helper()
	n := newNode(t)
	g := &guarded{node: n}
	conf := server.APIConfig{
		Engine: n.engine, Node: name, TaskLog: n.log, Workers: staff{"w-" + name},
		Peers: peer.New(peer.Config{
			Name: name, Self: n.engine.Incarnation, Members: func() []coord.Member { return c.members }, Secrets: secrets, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler),
		}),
		Stop: func(string) { c.stopped <- name },
		Reload: func(context.Context, server.ReloadedBy) (r server.Reload, err error) {
			if name == "d" {
				return server.Reload{Err: errors.New("line 3 is wrong"), Unchanged: true}, nil
			}
			return server.Reload{Changes: []server.ConfigChange{{Key: "limits.all.max", Before: "1", After: "2"}, {Key: "node.slots", Before: "3", After: "4", Restart: true}}}, nil
		},
	}
	c.nodes = append(c.nodes, n)
	if c.logs != nil {
		conf.StoredLogs = tasklog.InStore(c.logs, tasklog.StoreOptions{Node: name})
	}
	if l := c.inStore[name]; l != nil {
		conf.TaskLog = l
	}
	if tokens != nil {
		g.set(t, tokens...)
		conf.Tokens = g.tokens.Load
	}
	api := server.NewAPI(conf)
	l := listenBoth(t, api)
	t.Cleanup(conf.Peers.Close)
	t.Cleanup(api.Drain)
	c.apis = append(c.apis, api)
	c.members = append(c.members, coord.Member{Incarnation: n.engine.Incarnation(), Name: name, Address: "http://" + l.Addr().String(), Version: "v1"})
}

// at returns a client of a node with a token.
func (c *company) at(t *testing.T, node int, token string) taskenginev1connect.TaskServiceClient {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: transport}, c.members[node].Address,
		connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
				if token != "" {
					r.Header().Set("Authorization", "Bearer "+token)
				}
				return next(ctx, r)
			}
		})))
}

func workersText(all []*taskenginev1.Worker, silent []*taskenginev1.SilentNode) string {
	var words []string
	for _, w := range all {
		words = append(words, w.GetNode()+":"+w.GetName())
	}
	for _, s := range silent {
		words = append(words, "silent:"+s.GetNode())
	}
	return strings.Join(words, " ")
}

func TestTheRightsOfACallerCountAtEachNode(t *testing.T) {
	secrets := local.New()
	c := &company{stopped: make(chan string, 3)}
	operate := of("ops", access.Operate)
	c.join(t, secrets, "a", operate, of("root", access.Admin))
	c.join(t, secrets, "b", operate)
	c.join(t, secrets, "c", of("ops", access.Submit), of("root", access.Admin))
	c.join(t, secrets, "d")
	for _, one := range []struct {
		node               int
		token, list, drain string
	}{
		{0, "ops", "a:w-a b:w-b c:w-c d:w-d", "a:w-a silent:c"},
		{0, "root", "a:w-a c:w-c d:w-d silent:b", "a:w-a silent:b"},
		{2, "ops", "a:w-a b:w-b c:w-c d:w-d", "permission_denied"},
		{3, "", "d:w-d silent:a silent:b silent:c", "unavailable"},
	} {
		client := c.at(t, one.node, one.token)
		list, err := client.ListWorkers(t.Context(), &taskenginev1.ListWorkersRequest{})
		if got := workersText(list.GetWorkers(), list.GetSilent()); err != nil || got != one.list {
			t.Errorf("%q at node %d lists %s, %v; want %s", one.token, one.node, got, err, one.list)
		}
		var nodes []*taskenginev1.Worker
		overview, err := client.Overview(t.Context(), &taskenginev1.OverviewRequest{})
		for _, n := range overview.GetNodes() {
			nodes = append(nodes, &taskenginev1.Worker{Node: n.GetNode(), Name: "w-" + n.GetNode()})
		}
		if got := workersText(nodes, overview.GetSilent()); err != nil || got != one.list {
			t.Errorf("%q at node %d has the overview of %s, %v; want %s", one.token, one.node, got, err, one.list)
		}
		drained, err := client.DrainWorker(t.Context(), &taskenginev1.DrainWorkerRequest{Worker: "w-a"})
		got := workersText(drained.GetWorkers(), drained.GetSilent())
		if err != nil {
			got = connect.CodeOf(err).String()
		}
		if got != one.drain {
			t.Errorf("%q at node %d drains %s (%v), want %s", one.token, one.node, got, err, one.drain)
		}
	}
}

func TestFilesAreAppliedByOneNodeOrByAll(t *testing.T) {
	secrets := local.New()
	c := &company{stopped: make(chan string, 3)}
	root := of("root", access.Admin)
	for _, name := range []string{"b", "a", "d"} {
		c.join(t, secrets, name, root)
	}
	c.join(t, secrets, "e", of("other", access.Admin)) // which refuses the token
	client := c.at(t, 0, "root")
	for all, want := range map[bool]string{false: "b:2", true: "a:2 b:2 d:0:line 3 is wrong silent:e"} {
		res, err := client.ApplyConfig(t.Context(), &taskenginev1.ApplyConfigRequest{AllNodes: all})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range res.GetNodes() {
			one := fmt.Sprintf("%s:%d", n.GetNode(), len(n.GetChanges()))
			if n.GetUnchanged() {
				one += ":" + n.GetProblem()
			}
			got = append(got, one)
		}
		for _, s := range res.GetSilent() {
			got = append(got, "silent:"+s.GetNode())
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("with all %t: %s, want %s", all, text, want)
		}
	}
}

func TestANodeIsDrainedByNameOrID(t *testing.T) {
	secrets := local.New()
	c := &company{stopped: make(chan string, 3)}
	for _, name := range []string{"a", "b", "b"} {
		c.join(t, secrets, name)
	}
	client := c.at(t, 0, "")
	nodes, err := client.ListNodes(t.Context(), &taskenginev1.ListNodesRequest{})
	if err != nil || len(nodes.GetNodes()) != 3 || len(nodes.GetSilent()) != 0 || !nodes.GetNodes()[0].GetHere() {
		t.Fatalf("the nodes are %v, %v", nodes, err)
	}
	for _, n := range nodes.GetNodes() {
		if s := n.GetStatus(); s.GetShards() == 0 || s.GetSlots() != 8 || s.GetWorkers() != 1 || s.GetUptime() == nil {
			t.Errorf("the status of %s is %v", n.GetName(), s)
		}
	}
	for name, want := range map[string]string{"b": "failed_precondition", "nobody": "not_found", "": "invalid_argument"} {
		if _, err := client.DrainNode(t.Context(), &taskenginev1.DrainNodeRequest{Node: name}); connect.CodeOf(err).String() != want {
			t.Errorf("draining %q: %v, want %s", name, err, want)
		}
	}
	for _, node := range []string{"a", c.members[2].Incarnation.String()} {
		if _, err := client.DrainNode(t.Context(), &taskenginev1.DrainNodeRequest{Node: node}); err != nil {
			t.Errorf("draining %s: %v", node, err)
		}
		if got := <-c.stopped; got != map[bool]string{true: "a", false: "b"}[node == "a"] {
			t.Errorf("draining %s stops %s", node, got)
		}
	}
	one, err := client.ListNodes(t.Context(), &taskenginev1.ListNodesRequest{Node: "a"})
	if err != nil || len(one.GetNodes()) != 1 {
		t.Errorf("node a is %v, %v", one, err)
	}
}

func TestANodeThatIsCutOffSaysThatOthersAreMissing(t *testing.T) {
	c := &company{}
	c.join(t, local.New(), "a")
	client := c.at(t, 0, "")
	c.members = nil
	res, err := client.ListWorkers(t.Context(), &taskenginev1.ListWorkersRequest{})
	if err != nil || len(res.GetWorkers()) != 1 || len(res.GetSilent()) != 1 || !strings.Contains(res.GetSilent()[0].GetProblem(), "cut off") {
		t.Errorf("got %v, %v", res, err)
	}
	stream, err := client.TaskLogs(t.Context(), &taskenginev1.TaskLogsRequest{Id: "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		if s := stream.Msg().GetSilent(); len(s) != 1 {
			t.Errorf("the logs are %v", stream.Msg())
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
}

func TestEveryNodeReadsTheLogsInTheStoreAndInFilesOfOthers(t *testing.T) {
	c := &company{logs: memory.New(), inStore: map[string]*tasklog.Log{}}
	for _, name := range []string{"b", "c"} {
		l := tasklog.Open(tasklog.Options{Store: tasklog.InStore(c.logs, tasklog.StoreOptions{Node: name})})
		t.Cleanup(func() { _ = l.Close() })
		c.inStore[name] = l
	}
	secrets := local.New()
	for _, name := range []string{"a", "b", "c"} {
		c.join(t, secrets, name)
	}
	id := c.nodes[0].submit(t, &taskenginev1.NewTask{Type: "idle"})
	begin := time.Now()
	say := func(l *tasklog.Log, attempt uint32, text string) {
		l.Log(refOf(t, id).ID, attempt, slog.NewRecord(begin.Add(time.Duration(attempt)*time.Second), slog.LevelInfo, text, 0))
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	say(c.nodes[0].log, 1, "file")
	say(c.inStore["b"], 2, "store b")
	say(c.inStore["c"], 3, "store c")
	cursors := make([]string, 3)
	for i := range c.nodes {
		got, err := logs(t, c.at(t, i, ""), &taskenginev1.TaskLogsRequest{Id: id}, nil)
		if err != nil || !got.complete || got.messages() != "file,store b,store c" || got.lines[0].GetNode() != "a" || got.lines[1].GetNode() != "b" {
			t.Errorf("the log at %s is %s: %v (%v)", c.members[i].Name, got.messages(), got, err)
			continue
		}
		cursors[i] = got.cursor
	}
	say(c.inStore["b"], 4, "later")
	for i, cursor := range cursors { // of another node
		got, err := logs(t, c.at(t, (i+1)%3, ""), &taskenginev1.TaskLogsRequest{Id: id, Cursor: cursor}, nil)
		if err != nil || got.messages() != "later" {
			t.Errorf("behind the cursor of %s the log is %v (%v)", c.members[i].Name, got, err)
		}
	}
}

func TestALogInTheStoreIsFollowedUntilTheTaskHasEnded(t *testing.T) {
	c := &company{logs: memory.New(), inStore: map[string]*tasklog.Log{}}
	l := tasklog.Open(tasklog.Options{Store: tasklog.InStore(c.logs, tasklog.StoreOptions{Node: "a"})})
	t.Cleanup(func() { _ = l.Close() })
	other := tasklog.Open(tasklog.Options{Store: tasklog.InStore(c.logs, tasklog.StoreOptions{Node: "gone"})}) // of a node that nobody asks
	t.Cleanup(func() { _ = other.Close() })
	c.inStore["a"] = l
	c.join(t, local.New(), "a")
	n := c.nodes[0]
	id := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	n.until(t, id, "processing")
	say := func(text string) {
		other.Log(refOf(t, id).ID, 1, slog.NewRecord(time.Now(), slog.LevelInfo, text, 0))
	}
	say("first")
	got, err := logs(t, c.at(t, 0, ""), &taskenginev1.TaskLogsRequest{Id: id, Follow: true}, func(r *received) {
		switch {
		case len(r.lines) == 1:
			say("second")
		case len(r.lines) == 2 && n.release != nil:
			say("last")
			n.release <- struct{}{}
		}
	})
	if err != nil || !got.complete || got.messages() != "first,second,last" {
		t.Errorf("the log is %v (%v)", got, err)
	}
}

func TestOnlyNodesAskAsNodes(t *testing.T) {
	c := &company{}
	c.join(t, local.New(), "a", of("ops", access.Operate))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.members[0].Address+taskenginev1connect.TaskServiceListWorkersProcedure, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(peer.Header, fmt.Sprintf("x %s local y z", c.members[0].Incarnation))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a forged request is answered with %s", res.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}
