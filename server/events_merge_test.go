package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/server/peer"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/storage/memory"
)

// fleet are nodes that share a store and know each other.
type fleet struct {
	store    *memory.Store
	first    *local.Node
	nodes    []*fleetNode
	patience time.Duration // of a node with another one
}

// fleetNode is a node of a fleet.
type fleetNode struct {
	*engine.Engine
	store  *breakable
	client taskenginev1connect.TaskServiceClient
	leave  func() error // has the node leave the cluster, as if it were killed
	sever  func()       // has the node leave the cluster and join it again
	hangs  atomic.Bool  // it takes requests and does not answer
}

func newFleet(t *testing.T, nodes int) *fleet {
	t.Helper()
	return newImpatientFleet(t, nodes, time.Minute)
}

// newImpatientFleet is newFleet, with the time after which a node that does not answer another one is silent.
func newImpatientFleet(t *testing.T, nodes int, patience time.Duration) *fleet {
	t.Helper()
	f := &fleet{store: memory.New(), first: local.New(), patience: patience}
	for range nodes {
		f.join(t)
	}
	return f
}

// join adds a node that runs no tasks, and returns when all nodes know each other.
func (f *fleet) join(t *testing.T) *fleetNode {
	t.Helper()
	member := f.first.Peer()
	n := &fleetNode{store: &breakable{Store: f.store}, leave: member.Close, sever: member.Sever}
	var err error
	name := fmt.Sprintf("n%d", len(f.nodes))
	n.Engine, err = engine.Open(t.Context(), engine.Config{
		Name: name, Store: n.store, Policies: policy.Set{Slots: 1, Types: map[string]policy.Type{"idle": policy.DefaultType()}}, Coordinator: member.Coordinator(),
	})
	if err != nil {
		t.Fatal(err)
	}
	peers := peer.New(peer.Config{Name: name, Self: n.Incarnation, Members: n.Members, Secrets: n.Settings(), Timeout: f.patience, Log: slog.New(slog.DiscardHandler)})
	api := server.NewAPI(server.APIConfig{Engine: n.Engine, Node: name, Peers: peers})
	l := listenTo(t, server.ListenConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.hangs.Load() {
			<-r.Context().Done()
			return
		}
		api.ServeHTTP(w, r)
	})})
	transport := &http.Transport{}
	n.client = taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: transport}, "http://"+l.Addr().String())
	n.Advertise("http://" + l.Addr().String())
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		peers.Close()
		api.Drain()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.Close(ctx)
	})
	f.nodes = append(f.nodes, n)
	f.meet(t, len(f.nodes))
	return n
}

// meet waits until each node knows so many nodes with addresses.
func (f *fleet) meet(t *testing.T, nodes int) {
	t.Helper()
	until := time.Now().Add(time.Minute)
	for _, n := range f.nodes {
		for {
			all := n.Members()
			if len(all) == nodes && !slices.ContainsFunc(all, func(m coord.Member) bool { return m.Address == "" }) {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("%s knows %+v", n.Name(), all)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// add adds a task that does not run, by its engine.
func (n *fleetNode) add(t *testing.T, key string) {
	t.Helper()
	if _, err := n.Submit(t.Context(), engine.Request{Type: "idle", Key: key, At: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("not so within a minute: %s", what)
		}
	}
}

// reader has the events that it has read from a fleet.
type reader struct {
	all    []string // the keys of tasks, "gap", or "silent" and the name of a node; with "stored" before those of the store
	cursor string
}

// has reports whether each text is among what was read.
func (h *reader) has(texts ...string) bool {
	for _, text := range texts {
		if !slices.Contains(h.all, text) {
			return false
		}
	}
	return true
}

// read reads events at a node until done returns true. The stream ends after a while, and goes on at its cursor.
func (n *fleetNode) read(t *testing.T, req *taskenginev1.EventsRequest, done func(*reader) bool) *reader {
	t.Helper()
	h := &reader{cursor: req.GetCursor()}
	until := time.Now().Add(time.Minute)
	for time.Now().Before(until) {
		req.Cursor, req.Timeout = h.cursor, durationpb.New(10*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := n.client.Events(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		for stream.Receive() {
			h.take(stream.Msg())
			if done(h) {
				cancel()
				stream.Close()
				return h
			}
		}
		cancel()
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the reader has %v", h.all)
	return nil
}

func (h *reader) take(res *taskenginev1.EventsResponse) {
	for _, s := range res.GetSilent() {
		h.all = append(h.all, "silent "+s.GetNode())
	}
	if res.GetGap() != nil {
		h.all = append(h.all, "gap")
	}
	for _, e := range res.GetEvents() {
		text := e.GetTask().GetKey()
		if e.GetFromStore() {
			text = "stored " + text
		}
		h.all = append(h.all, text)
	}
	h.cursor = res.GetCursor()
}

func TestTheEventsOfAllNodesAreOneStream(t *testing.T) {
	f := newFleet(t, 3)
	began := false
	first := f.nodes[0].read(t, &taskenginev1.EventsRequest{CatchUp: true}, func(h *reader) bool {
		if !began {
			began = true
			for i, n := range f.nodes {
				n.add(t, fmt.Sprint("a", i))
			}
		}
		return h.has("a0", "a1", "a2")
	})
	if len(first.all) != 3 {
		t.Errorf("from the present on it is %v", first.all)
	}
	if parts := strings.Split(first.cursor, ","); len(parts) != 3 {
		t.Errorf("the cursor is %s", first.cursor)
	}
	for i, n := range f.nodes {
		n.add(t, fmt.Sprint("b", i))
	}
	next := f.nodes[1].read(t, &taskenginev1.EventsRequest{Cursor: first.cursor, CatchUp: true}, func(h *reader) bool { return h.has("b0", "b1", "b2") })
	if len(next.all) != 3 {
		t.Errorf("at another node it goes on with %v", next.all)
	}
	some := f.nodes[2].read(t, &taskenginev1.EventsRequest{Cursor: "1h", CatchUp: true}, func(h *reader) bool {
		return h.has("stored a0", "stored a1", "stored a2", "stored b0", "stored b1", "stored b2")
	})
	if len(some.all) != 7 || some.all[0] != "gap" {
		t.Errorf("from a time on it is %v", some.all)
	}
	gaps := f.nodes[2].read(t, &taskenginev1.EventsRequest{Cursor: "1h"}, func(h *reader) bool { return len(h.all) > 0 })
	if len(gaps.all) != 1 || gaps.all[0] != "gap" {
		t.Errorf("without the store it is %v", gaps.all)
	}
}

// The cursor of each event is behind it and no other.
func TestAReaderGoesOnAfterAnyEventOfACluster(t *testing.T) {
	f := newFleet(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := f.nodes[0].client.Events(ctx, &taskenginev1.EventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	const each = 20
	cursors := make(map[string]int) // how many events were before each
	var seen []string
	for began := false; len(seen) < 3*each && stream.Receive(); {
		if !began {
			began = true
			for i := range each {
				for j, n := range f.nodes {
					n.add(t, fmt.Sprint(i, " ", j))
				}
			}
		}
		for _, e := range stream.Msg().GetEvents() {
			seen = append(seen, e.GetTask().GetKey())
			cursors[e.GetCursor()] = len(seen)
		}
	}
	if len(seen) != 3*each || len(cursors) != 3*each {
		t.Fatalf("%d events have %d cursors, %v", len(seen), len(cursors), stream.Err())
	}
	for cursor, before := range cursors {
		rest := f.nodes[before%3].read(t, &taskenginev1.EventsRequest{Cursor: cursor}, func(h *reader) bool { return len(h.all) >= 3*each-before })
		for _, key := range rest.all {
			if !slices.Contains(seen[before:], key) {
				t.Errorf("after %d events comes %q, of %v", before, key, seen[before:])
			}
		}
	}
}

func TestANodeThatJoinsOrLeavesIsAGapThatTheStoreFills(t *testing.T) {
	f := newImpatientFleet(t, 2, time.Second)
	step := 0
	h := f.nodes[0].read(t, &taskenginev1.EventsRequest{CatchUp: true}, func(h *reader) bool {
		switch {
		case step == 0:
			f.join(t).add(t, "of the one that joins")
			step++
		case step == 1 && (h.has("stored of the one that joins") || h.has("of the one that joins")):
			f.nodes[2].add(t, "later")
			step++
		case step == 2 && (h.has("later") || h.has("stored later")):
			f.nodes[1].hangs.Store(true)
			f.nodes[1].add(t, "of the one that leaves")
			f.nodes[1].leave()
			step++
		}
		return h.has("stored of the one that leaves") || h.has("of the one that leaves")
	})
	if !h.has("gap") {
		t.Errorf("it is %v", h.all)
	}
}

// A reader that comes back after a node has left reads the events of that from the store.
func TestACursorOfANodeThatHasLeftIsAGap(t *testing.T) {
	f := newImpatientFleet(t, 3, time.Second)
	h := f.nodes[0].read(t, &taskenginev1.EventsRequest{}, func(*reader) bool { return true })
	f.nodes[1].add(t, "of the one that leaves")
	f.nodes[1].leave()
	for _, n := range []*fleetNode{f.nodes[0], f.nodes[2]} {
		until(t, "the others know that a node has left", func() bool { return len(n.Members()) == 2 })
	}
	h = f.nodes[2].read(t, &taskenginev1.EventsRequest{Cursor: h.cursor, CatchUp: true}, func(h *reader) bool { return h.has("stored of the one that leaves") })
	f.nodes[0].read(t, &taskenginev1.EventsRequest{Cursor: h.cursor}, func(h *reader) bool { return strings.Count(h.cursor, ",") == 1 }) // the gap has an end
}

// A node that loses its membership and joins again keeps its events, and its readers lose none.
func TestANodeThatJoinsAgainLosesNoEvents(t *testing.T) {
	for _, node := range []int{0, 1} {
		t.Run(fmt.Sprint("node ", node), func(t *testing.T) {
			f := newFleet(t, 2)
			step, before := 0, f.nodes[node].Incarnation()
			last := f.nodes[0].read(t, &taskenginev1.EventsRequest{CatchUp: true}, func(h *reader) bool {
				switch {
				case step == 0:
					f.nodes[node].sever()
					until(t, "the node has joined again", func() bool { return f.nodes[node].Incarnation() != before })
					f.meet(t, 2)
					f.nodes[node].add(t, "again")
					step++
				case h.has("again") || h.has("stored again"):
					return true
				}
				return false
			})
			f.nodes[1-node].add(t, "other")
			f.nodes[node].add(t, "more")
			marked := false
			next := f.nodes[1].read(t, &taskenginev1.EventsRequest{Cursor: last.cursor, CatchUp: true}, func(h *reader) bool {
				if !marked && (h.has("more") || h.has("stored more")) && (h.has("other") || h.has("stored other")) {
					marked = true
					f.nodes[0].add(t, "mark 0")
					f.nodes[1].add(t, "mark 1")
				}
				return h.has("mark 0", "mark 1")
			})
			f.nodes[node].add(t, "end")
			if end := f.nodes[1].read(t, &taskenginev1.EventsRequest{Cursor: next.cursor}, func(h *reader) bool { return h.has("end") }); len(end.all) != 1 {
				t.Errorf("after that it is %v", end.all)
			}
		})
	}
}

func TestASilentNodeIsNamedAndItsEventsComeLater(t *testing.T) {
	f := newImpatientFleet(t, 3, time.Second)
	f.nodes[1].hangs.Store(true)
	began := false
	h := f.nodes[0].read(t, &taskenginev1.EventsRequest{CatchUp: true}, func(h *reader) bool {
		if !began {
			began = true
			if !h.has("silent n1") {
				t.Errorf("the first response has %v", h.all)
			}
			f.nodes[1].add(t, "silent")
			f.nodes[2].add(t, "other")
		}
		if h.has("other") {
			f.nodes[1].hangs.Store(false)
		}
		return h.has("other") && (h.has("silent") || h.has("stored silent"))
	})
	if !h.has("gap") {
		t.Errorf("it is %v", h.all)
	}
}

// Such a node takes requests, and tries in vain to send events.
func TestNodesOfWhichTheStoreHasFailedAreSilent(t *testing.T) {
	f := newImpatientFleet(t, 3, 3*time.Second) // longer than until a node is asked again
	began := false
	f.nodes[0].read(t, &taskenginev1.EventsRequest{}, func(h *reader) bool {
		if !began {
			began = true
			for _, n := range f.nodes[:2] {
				n.store.broken.Store(true)
				if _, err := n.Submit(t.Context(), engine.Request{Type: "idle"}); err == nil {
					t.Fatalf("%s adds a task", n.Name())
				}
				<-n.Failed()
			}
		}
		return h.has("silent n0", "silent n1")
	})
}
