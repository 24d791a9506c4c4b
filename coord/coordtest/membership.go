package coordtest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

// RunMembership runs the suite of [coord.Membership]. Those without leases prove always.
func RunMembership(t *testing.T, b Backend[coord.Membership]) {
	b.run(t, "a node that joins gets itself with all its fields", membersSelf)
	b.run(t, "all members see joins and leaves, sorted by incarnation", membersComeAndGo)
	b.run(t, "a member that has left is not seen by later ones", membersLeft)
	b.run(t, "a member that says something else is seen to", membersAnnounce)
	b.run(t, "two members may share a name", membersSameName)
	b.run(t, "one node may have two members", membersOneNode)
	b.run(t, "the caller of Join owns each list", membersOwnList)
	b.run(t, "fn is called one at a time", membersOneCall)
	b.run(t, "a severed member vanishes and its Join returns an error", membersSevered)
	b.run(t, "a severed node can join again under a new incarnation", membersAgain)
	b.run(t, "all nodes of a cluster have its identity", membersIdentity)
	b.run(t, "a member that must prove that it is alive knows its lease", membersLease)
	b.run(t, "a member that has not heard of another one does not prove for long that it is alive", membersUnheard)
}

// joined is one call of Join.
type joined struct {
	self   coord.Member
	cut    atomic.Bool // the test is about to sever its node
	result chan error  // the result of Join
	leave  context.CancelFunc

	mu    sync.Mutex
	first []coord.Member // guarded by mu: the first list that it got
	list  []coord.Member // guarded by mu: the newest
}

func member(number byte) coord.Member {
	return coord.Member{
		Incarnation: task.ID{0: number, 15: number},
		Name:        fmt.Sprintf("node-%d", number),
		Handlers:    []string{"mail", "payout"},
		Selectors:   []string{"region=eu"},
		Labels:      map[string]string{"zone": "a"},
		Address:     "https://10.0.0.1:7420",
		Version:     "1.2.3",
	}
}

func join(e *env[coord.Membership], node coord.Membership, self coord.Member) *joined {
	j := &joined{self: self, result: make(chan error, 1)}
	ctx, leave := context.WithCancel(e.Context())
	j.leave = leave
	e.start(func(context.Context) {
		defer leave()
		err := node.Join(ctx, self, func(list []coord.Member) {
			j.mu.Lock()
			defer j.mu.Unlock()
			if j.first == nil {
				j.first = list
			}
			j.list = list
		})
		if err != nil && !j.cut.Load() {
			e.lapse()
		}
		j.result <- err
	})
	return j
}

// joinWith has a node join with a function of the test.
func joinWith(e *env[coord.Membership], node coord.Membership, self coord.Member, fn func([]coord.Member)) {
	e.start(func(ctx context.Context) {
		if err := node.Join(ctx, self, fn); err != nil {
			e.lapse()
		}
	})
}

// sees waits until fn was called with exactly these members, in the order of incarnation.
func (j *joined) sees(e *env[coord.Membership], want ...coord.Member) {
	e.Helper()
	slices.SortFunc(want, func(a, b coord.Member) int { return a.Incarnation.Compare(b.Incarnation) })
	var got []coord.Member
	defer func() {
		if e.Failed() {
			e.Logf("%s last got %v, want %v", j.self.Name, got, want)
		}
	}()
	e.eventually("the list of members", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		got = slices.Clone(j.list)
		return reflect.DeepEqual(got, want)
	})
}

func (j *joined) leaves(e *env[coord.Membership]) {
	e.Helper()
	j.leave()
	if err := receive(e, "Join to return", j.result); err != nil {
		e.check()
		e.Errorf("Join returned %v after its context had ended, want nil", err)
	}
}

func membersSelf(e *env[coord.Membership]) {
	self := member(1)
	j := join(e, e.connect(), self)
	j.sees(e, self)
	j.leaves(e)

	plain := coord.Member{Incarnation: task.ID{1}} // everything else may be missing
	lists := make(chan coord.Member, 100)
	node := e.connect()
	joinWith(e, node, plain, func(list []coord.Member) { lists <- list[0] })
	got := receive(e, "the list of members", lists)
	if got.Incarnation != plain.Incarnation || got.Name != "" || len(got.Handlers)+len(got.Selectors)+len(got.Labels) > 0 {
		e.Errorf("got %+v, want %+v", got, plain)
	}
}

func membersComeAndGo(e *env[coord.Membership]) {
	two := join(e, e.connect(), member(2))
	two.sees(e, member(2))
	three := join(e, e.connect(), member(3))
	one := join(e, e.connect(), member(1))
	for _, j := range []*joined{one, two, three} {
		j.sees(e, member(1), member(2), member(3))
	}
	two.leaves(e)
	one.sees(e, member(1), member(3))
	three.sees(e, member(1), member(3))
	one.leaves(e)
	three.sees(e, member(3))
}

func membersLeft(e *env[coord.Membership]) {
	for i := range byte(5) {
		j := join(e, e.connect(), member(i+1))
		j.sees(e, member(i+1))
		j.mu.Lock()
		if want := []coord.Member{member(i + 1)}; !reflect.DeepEqual(j.first, want) {
			e.Errorf("a newcomer first got %v, want %v", j.first, want)
		}
		j.mu.Unlock()
		j.leaves(e)
	}
}

func membersAnnounce(e *env[coord.Membership]) {
	near := e.connect()
	one, two := join(e, near, member(1)), join(e, e.connect(), member(2))
	two.sees(e, member(1), member(2))
	other := member(1)
	other.Draining, other.Handlers, other.Selectors, other.Labels = true, []string{"mail"}, []string{"region=us"}, map[string]string{"zone": "b"}
	other.Address, other.Version = "", "1.2.4"
	near.Announce(member(3)) // there is no such member
	near.Announce(other)
	other.Handlers = slices.Clone(other.Handlers)
	other.Selectors = slices.Clone(other.Selectors)
	one.sees(e, other, member(2))
	two.sees(e, other, member(2))
	near.Announce(member(1))
	two.sees(e, member(1), member(2))
	one.leaves(e)
	two.sees(e, member(2))
}

func membersSameName(e *env[coord.Membership]) {
	a, b := member(1), member(2)
	a.Name, b.Name = "twin", "twin"
	first, second := join(e, e.connect(), a), join(e, e.connect(), b)
	first.sees(e, a, b)
	second.sees(e, a, b)
	first.leaves(e)
	second.sees(e, b)
}

func membersOneNode(e *env[coord.Membership]) {
	node := e.connect()
	first, second := join(e, node, member(1)), join(e, node, member(2))
	first.sees(e, member(1), member(2))
	second.leaves(e)
	first.sees(e, member(1))
}

func membersOwnList(e *env[coord.Membership]) {
	node := e.connect()
	witness := join(e, node, member(1))
	joinWith(e, node, member(2), func(list []coord.Member) {
		for i := range list {
			clear(list[i].Labels)
			clear(list[i].Handlers)
			clear(list[i].Selectors)
			list[i] = coord.Member{}
		}
	})
	witness.sees(e, member(1), member(2))
	third := join(e, node, member(3))
	witness.sees(e, member(1), member(2), member(3))
	third.sees(e, member(1), member(2), member(3))
}

// membersOneCall lets fn run until the next change was made.
func membersOneCall(e *env[coord.Membership]) {
	var a alone
	called, release := make(chan int), make(chan struct{})
	node := e.connect()
	over := e.Context().Done()
	joinWith(e, node, member(100), func(list []coord.Member) {
		defer a.enter(e.T, "fn")()
		select {
		case called <- len(list):
		case <-over:
		}
		select {
		case <-release:
		case <-over:
		}
	})
	receive(e, "the list of members", called)
	want := []coord.Member{member(100)}
	for i := range byte(5) {
		want = append(want, member(i+1))
		join(e, e.connect(), member(i+1)).sees(e, slices.Clone(want)...)
		e.settle()
		send(e, "a member that goes on", release, struct{}{})
		receive(e, "the list of members", called)
	}
}

func membersSevered(e *env[coord.Membership]) {
	node := e.connect()
	first, second := join(e, node, member(1)), join(e, e.connect(), member(2))
	first.sees(e, member(1), member(2))
	second.sees(e, member(1), member(2))
	first.cut.Store(true)
	e.Sever(e.T, node)
	second.sees(e, member(2))
	if err := receive(e, "Join to return", first.result); err == nil {
		e.Error("Join of a severed node returned nil, want an error")
	}
	silent(e, "Join of a node that was not severed returned", second.result)
}

func membersAgain(e *env[coord.Membership]) {
	node := e.connect()
	witness := join(e, e.connect(), member(100))
	for i := range byte(3) {
		j := join(e, node, member(i+1))
		witness.sees(e, member(i+1), member(100))
		j.cut.Store(true)
		e.Sever(e.T, node)
		witness.sees(e, member(100))
		if err := receive(e, "Join to return", j.result); err == nil {
			e.Error("Join of a severed node returned nil, want an error")
		}
	}
}

func membersIdentity(e *env[coord.Membership]) {
	var first coord.Identity
	for i := range 3 {
		id, err := e.connect().Identity(e.Context())
		if err != nil {
			e.Fatal(err)
		}
		if i == 0 {
			first = id
		}
		if id.Driver == "" || !id.Is(first) {
			e.Errorf("a node is of %v, and the first of %v", id, first)
		}
	}
}

func membersLease(e *env[coord.Membership]) {
	node := e.connect()
	known := make(chan time.Duration, 1)
	joinWith(e, node, member(1), func([]coord.Member) { known <- node.Lease() })
	lease := receive(e, "the list of members", known)
	if lease < 0 || (lease == 0) != e.connect().Proves(member(9).Incarnation) {
		e.Errorf("a member has a lease of %v, and a node proves one that has never joined: %t", lease, lease > 0)
	}
}

// membersUnheard joins with a function that does not return from the call with another member.
func membersUnheard(e *env[coord.Membership]) {
	node := e.connect()
	if node.Proves(member(1).Incarnation) {
		return // its members have no leases
	}
	heard, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	joinWith(e, node, member(1), func(list []coord.Member) {
		if len(list) > 1 {
			once.Do(func() { close(heard); <-goOn })
		}
	})
	self := member(1).Incarnation
	e.eventually("a member that proves that it is alive", func() bool { return node.Proves(self) })
	two := join(e, e.connect(), member(2))
	receive(e, "the first member to hear of the second", heard)
	e.eventually("an end of the proof", func() bool { return !node.Proves(self) })
	close(goOn)
	e.eventually("a proof when it has heard of all", func() bool { return node.Proves(self) })
	two.leaves(e)
}
