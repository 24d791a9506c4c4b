package cluster

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/task"
)

// drawMembers returns some members that handle some of the types a, b and c, and may drain.
func drawMembers(t *rapid.T, least int) []coord.Member {
	n := rapid.IntRange(least, 6).Draw(t, "members")
	members := make([]coord.Member, n)
	for i := range members {
		m := &members[i]
		m.Incarnation = ids.Next(time.Now())
		m.Draining = rapid.Bool().Draw(t, "draining")
		for _, typ := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, typ) {
				m.Handlers = append(m.Handlers, typ)
			}
		}
	}
	return members
}

// Every shard of every type has one owner, which handles the type, unless no node does or all
// drain.
func TestEveryShardOfATypeHasOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 1)
		owned := make([]core.Ownership, len(members))
		for i, m := range members {
			owned[i] = assign(m.Incarnation, members, nil)
		}
		for _, typ := range []string{"a", "b", "c", "unhandled"} {
			able := candidates(members, typ)
			for shard := range uint16(task.ShardCount) {
				owners := 0
				for i := range members {
					if owned[i].Has(typ, shard) {
						if owners++; !able[i] {
							t.Fatalf("shard %d of type %s belongs to member %d of %+v", shard, typ, i, members)
						}
					}
				}
				if want := min(1, len(able)); owners != want {
					t.Fatalf("shard %d of type %s has %d owners among %+v", shard, typ, owners, members)
				}
			}
		}
	})
}

// Every shard of a type and a selector has one owner, among the nodes that run the type and match, or
// among all that do not drain if there is none.
func TestEveryShardOfAPlaceHasOneOwnerThatMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 1)
		keys := []string{"eu", "us"}
		for i := range members {
			for _, key := range keys {
				if rapid.Bool().Draw(t, key) {
					members[i].Selectors = append(members[i].Selectors, key)
				}
			}
		}
		places := map[string][]string{"a": keys, "b": keys[:1]}
		owned := make([]core.Ownership, len(members))
		for i, m := range members {
			owned[i] = assign(m.Incarnation, members, places)
		}
		for typ, keys := range places {
			for _, key := range keys {
				var matching, alive []int
				for i, m := range members {
					if m.Draining {
						continue
					}
					alive = append(alive, i)
					if slices.Contains(m.Handlers, typ) && slices.Contains(m.Selectors, key) {
						matching = append(matching, i)
					}
				}
				if len(matching) == 0 {
					matching = alive
				}
				for shard := range uint16(task.ShardCount) {
					var owners []int
					for i := range members {
						if owned[i].Has(core.OwnedAs(typ, key), shard) {
							owners = append(owners, i)
						}
					}
					if len(owners) != min(1, len(matching)) || len(owners) == 1 && !slices.Contains(matching, owners[0]) {
						t.Fatalf("shard %d of type %s in %s belongs to %v, of %v, among %+v", shard, typ, key, owners, matching, members)
					}
				}
			}
		}
		for i, m := range members {
			for _, typ := range []string{"a", "b", "c", "unhandled"} {
				without := assign(m.Incarnation, members, nil)
				for shard := range uint16(task.ShardCount) {
					if owned[i].Has(typ, shard) != without.Has(typ, shard) {
						t.Fatalf("shard %d of type %s has another owner if values have nodes", shard, typ)
					}
				}
			}
		}
	})
}

// candidates returns which members may own tasks of a type.
func candidates(members []coord.Member, typ string) map[int]bool {
	awake, able := make(map[int]bool), make(map[int]bool)
	for i, m := range members {
		if m.Draining {
			continue
		}
		awake[i] = true
		for _, h := range m.Handlers {
			if h == typ {
				able[i] = true
			}
		}
	}
	if len(able) == 0 {
		return awake
	}
	return able
}

func TestWhenANodeLeavesOnlyItsShardsMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 2)
		for i := range members {
			members[i].Draining, members[i].Handlers = false, nil
		}
		for _, m := range members[1:] {
			before, after := assign(m.Incarnation, members, nil), assign(m.Incarnation, members[1:], nil)
			left := assign(members[0].Incarnation, members, nil)
			for shard := range uint16(task.ShardCount) {
				if before.Has("a", shard) && !after.Has("a", shard) || !before.Has("a", shard) && after.Has("a", shard) && !left.Has("a", shard) {
					t.Fatalf("shard %d has moved", shard)
				}
			}
		}
	})
}

// The gained shards of a type are owned now and were not before; more may be read.
func TestAGainIsWhatWasNotOwnedBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 1)
		self := members[0].Incarnation
		draw := func(name string) core.Ownership {
			some := []coord.Member{members[0]}
			for _, m := range members[1:] {
				if rapid.Bool().Draw(t, name) {
					some = append(some, m)
				}
			}
			return assign(self, some, nil)
		}
		g := gain{before: draw("before"), now: draw("now")}
		for _, typ := range []string{"a", "b", "c", "unhandled"} {
			of, ofAny := g.of(typ), g.ofAny()
			for shard := range uint16(task.ShardCount) {
				isNew := g.now.Has(typ, shard) && !g.before.Has(typ, shard)
				if isNew && (!of.Has(shard) || !ofAny.Has(shard)) {
					t.Fatalf("shard %d of type %s is not read: %+v", shard, typ, g)
				}
				if of.Has(shard) && !g.now.Has(typ, shard) {
					t.Fatalf("shard %d of type %s is read, and belongs to another node: %+v", shard, typ, g)
				}
			}
		}
	})
}
