package client_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/server/peer"
	"github.com/taskengine/taskengine/server/sessions"
	"github.com/taskengine/taskengine/server/tokens"
	"github.com/taskengine/taskengine/task"
)

// staff is a worker of a node.
type staff struct{}

func (staff) Workers() []server.Worker {
	return []server.Worker{{ID: "1", Name: "w", Handler: "echo", State: "serving", Slots: 3, ConnectedAt: time.Unix(1, 0)}}
}

func (s staff) DrainWorker(worker string) []server.Worker {
	if worker != "w" {
		return nil
	}
	return s.Workers()
}

// serveAPI serves an API at an address of its own.
func serveAPI(t *testing.T, c server.APIConfig) string {
	t.Helper()
	api := server.NewAPI(c)
	l, err := server.Listen(t.Context(), server.ListenConfig{Address: "127.0.0.1:0", Handler: api, GRPC: api.GRPC(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		api.Drain()
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestNodesAndWorkersAreListedWithTheNodesThatAreSilent(t *testing.T) {
	n := newTasks(t)
	here := coord.Member{Incarnation: n.engine.Incarnation(), Name: "n1", Address: "http://127.0.0.1:1"}
	gone := coord.Member{Incarnation: task.ID{7}, Name: "n2", Address: "http://127.0.0.1:1", Handlers: []string{"echo"}}
	peers := peer.New(peer.Config{
		Name: "n1", Self: n.engine.Incarnation, Members: func() []coord.Member { return []coord.Member{here, gone} }, Secrets: local.New(), Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(peers.Close)
	stopped := make(chan string, 1)
	c := open(t, client.Options{}, serveAPI(t, server.APIConfig{Engine: n.engine, Node: "n1", Workers: staff{}, Peers: peers, Stop: func(why string) { stopped <- why }}))
	nodes, silent, err := c.Nodes(t.Context(), "")
	if err != nil || len(nodes) != 2 || nodes[0].Name != "n1" || !nodes[0].Here || nodes[0].Status == nil || nodes[1].Name != "n2" || nodes[1].Status != nil || !slices.Equal(nodes[1].Types, []string{"echo"}) {
		t.Fatalf("the nodes are %+v, %v", nodes, err)
	}
	if len(silent) != 1 || silent[0].Node != "n2" || silent[0].ID != gone.Incarnation.String() || silent[0].Problem == "" {
		t.Errorf("the silent nodes are %+v", silent)
	}
	if nodes, _, err = c.Nodes(t.Context(), "n1"); err != nil || len(nodes) != 1 || nodes[0].ID != n.engine.Incarnation().String() {
		t.Errorf("the node n1 is %+v, %v", nodes, err)
	}
	workers, silent, err := c.Workers(t.Context())
	if err != nil || len(workers) != 1 || workers[0].Name != "w" || workers[0].State != client.WorkerServing || workers[0].Slots != 3 || workers[0].Node != "n1" || len(silent) != 1 {
		t.Errorf("the workers are %+v, without %+v, %v", workers, silent, err)
	}
	if workers, silent, err = c.DrainWorker(t.Context(), "w"); err != nil || len(workers) != 1 || len(silent) != 1 {
		t.Errorf("drained are %+v, without %+v, %v", workers, silent, err)
	}
	if _, silent, err = c.Limits(t.Context()); err != nil || len(silent) != 1 || silent[0].Node != "n2" {
		t.Errorf("the limits are without %+v, %v", silent, err)
	}
	if node, err := c.DrainNode(t.Context(), "n1", "anna"); err != nil || node.Name != "n1" || <-stopped == "" {
		t.Errorf("the drained node is %+v, %v", node, err)
	}
	for what, err := range map[string]error{
		"an unknown node": func() error { _, _, err := c.Nodes(t.Context(), "n3"); return err }(),
		"to drain it":     func() error { _, err := c.DrainNode(t.Context(), "n3", ""); return err }(),
	} {
		if !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTokensAreMadeListedRotatedAndRevoked(t *testing.T) {
	e := newTasks(t).engine
	boss, err := access.NewTokens([]access.Token{{Name: "boss", Hash: access.HashOf("te_boss"), Roles: []access.Role{access.Admin}}})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := tokens.Open(t.Context(), tokens.Config{Settings: e.Settings(), File: func() *access.Tokens { return boss }, Now: e.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	address := serveAPI(t, server.APIConfig{Engine: e, Tokens: kept.Tokens, Kept: kept})
	c := open(t, client.Options{Token: "te_boss"}, address)
	made, secret, err := c.AddToken(t.Context(), client.TokenRequest{Name: "shop", Roles: []string{"submit"}, Types: []string{"idle"}, ExpiresIn: time.Hour, By: "anna"})
	if err != nil || made.State != client.TokenValid || made.By != "boss (says anna)" || made.ExpiresAt.Sub(made.CreatedAt) != time.Hour {
		t.Fatalf("made is %+v, %v", made, err)
	}
	if _, err = open(t, client.Options{Token: secret}, address).Submit(t.Context(), "idle", nil); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	if _, _, err = c.AddToken(t.Context(), client.TokenRequest{Name: "shop", Roles: []string{"submit"}}); !errors.Is(err, client.ErrExists) {
		t.Errorf("the name again: %v", err)
	}
	turned, next, err := c.RotateToken(t.Context(), "shop", time.Minute, "")
	if err != nil || next == secret || turned.RotatedBy != "boss" || turned.EarlierUntil.IsZero() {
		t.Errorf("rotated is %+v, %v", turned, err)
	}
	if revoked, err := c.RevokeToken(t.Context(), "shop", false, ""); err != nil || revoked.State != client.TokenRevoked || revoked.RevokedBy != "boss" {
		t.Errorf("revoked is %+v, %v", revoked, err)
	}
	for _, one := range []struct {
		revoked bool
		want    []string
	}{{false, []string{"boss"}}, {true, []string{"shop", "boss"}}} {
		var names []string
		all, err := c.Tokens(t.Context(), one.revoked)
		for _, each := range all {
			names = append(names, each.Name)
		}
		if err != nil || !slices.Equal(names, one.want) || !all[len(all)-1].InFile {
			t.Errorf("the tokens are %v, %v, want %v", names, err, one.want)
		}
	}
	if _, err = c.RevokeToken(t.Context(), "none", false, ""); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown token: %v", err)
	}
	if _, err = c.RevokeSessions(t.Context(), "ann@example.com", ""); !errors.Is(err, client.ErrNotAllowed) {
		t.Errorf("sessions where nobody has one: %v", err)
	}
}

func TestTheSessionsOfAPersonAreEnded(t *testing.T) {
	e := newTasks(t).engine
	ended, err := sessions.Open(t.Context(), sessions.Config{Settings: e.Settings(), Session: time.Hour, Now: e.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, client.Options{}, serveAPI(t, server.APIConfig{Engine: e, Sessions: ended}))
	begun := ended.Time()
	before, err := c.RevokeSessions(t.Context(), "ann@example.com", "bob")
	if err != nil || before.Before(begun) {
		t.Errorf("it gives %v, %v", before, err)
	}
	for person, want := range map[string]bool{"ann@example.com": true, "bob@example.com": false} {
		if is, err := ended.Has(&access.Session{Person: person, Subject: "1", Begun: begun}); is != want || err != nil {
			t.Errorf("the session of %s has ended: %v, %v", person, is, err)
		}
	}
	if _, err := c.RevokeSessions(t.Context(), "a b", ""); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a name with a space: %v", err)
	}
}
