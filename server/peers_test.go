package server_test

import (
	"context"
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
	stopped chan string // receives the names of nodes that were asked to stop
}

// join adds a node with a worker that has the name of the node; without tokens it wants none.
func (c *company) join(t *testing.T, secrets coord.Config, name string, tokens ...access.Token) {
	t.Helper()
	n := newNode(t)
	g := &guarded{node: n}
	conf := server.APIConfig{
		Engine: n.engine, Node: name, TaskLog: n.log, Workers: staff{"w-" + name},
		Peers: peer.New(peer.Config{
			Name: name, Self: n.engine.Incarnation, Members: func() []coord.Member { return c.members }, Secrets: secrets, Log: slog.New(slog.DiscardHandler),
		}),
		Stop: func(string) { c.stopped <- name },
	}
	if tokens != nil {
		g.set(t, tokens...)
		conf.Tokens = g.tokens.Load
	}
	api := server.NewAPI(conf)
	l := listenBoth(t, api)
	t.Cleanup(conf.Peers.Close)
	t.Cleanup(api.Drain)
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
