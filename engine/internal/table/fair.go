package table

import (
	"cmp"
	"math"
	"slices"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// The values of a fair limit take turns by deficit round robin (M. Shreedhar and G. Varghese, Efficient
// Fair Queueing Using Deficit Round Robin, SIGCOMM 1995).
//
//   - A value waits while a queue below it has triggers, whether or not they could run. The values
//     that wait have an order. A value that begins to wait becomes the last, and a value that waits no
//     more is forgotten.
//   - The first value that could run has its turn. Only values with best tasks of the same priority
//     take turns: a task of a better priority goes first.
//   - With a turn comes credit: the share of the value times the largest weight of a task of the
//     limit. A task costs its weight. When the credit does not cover the largest task any more, the
//     turn is over: the value becomes the last, and keeps the credit that is left.
//   - A value that waits and could not run, because it is full, keeps its place and its credit.
//
// The values of a limit that have the same parent form a group, which is a node between them and the
// parent. The group offers to the parent the task of the value that has its turn. So among other
// tasks, a task of a fair limit has the place of its own rank.
//
// # The bound
//
// Let W be the largest weight, and consider any time while two values wait and could run, and their
// best tasks have one priority. In m turns a value with the share s takes m*s*W of credit, and keeps
// less than W from turn to turn. So its tasks in m turns have a weight of m*s*W, give or take less than
// W. Between two turns of one value the other has exactly one, because a value becomes the last after
// its turn. So the numbers of their turns differ by at most one. For the weights A and B of their
// started tasks and their shares a and b, A/a and B/b differ by at most W + W/a + W/b: one turn, and
// one largest task of each. If all weights are 1, credit is never left, and they differ by at most 1.
//
// A value that begins to wait has its turn after at most one turn of each of the others.
//
// # Limits that cut across
//
// A queue that such a limit stops leaves the tree, so the limit must bring queues back in the order of
// the tree. Therefore the groups and values above a parked queue have a stand there, which is a copy
// of them for the queues that are parked.

// fair is the state of a node for a fair limit. A stand shares the state of the node that it is a copy
// of.
type fair struct {
	isGroup bool    // of values; all fields but stands are for a value
	at      uint64  // its place in the order; 0 if it does not wait
	credit  int     // at least largest while it waits
	quantum int     // its credit for a turn
	largest int     // the largest weight of a task of the limit
	waiting int     // number of queues below that have triggers
	stands  []stand // sorted by on.serial
}

// stand is a copy of a node for the queues below it that are parked on a limit.
type stand struct {
	on   *node // the limit
	node *node
}

type groupKey struct {
	parent *node
	limit  string
}

// groupOf returns the group of the values of l below parent.
func (t *Table) groupOf(parent *node, l policy.Limit) *node {
	key := groupKey{parent, l.Name}
	g, ok := t.groups[key]
	if !ok {
		g = t.newNode(parent, policy.Limit{}, "")
		g.key, g.fair = l.Name, &fair{isGroup: true}
		t.groups[key] = g
	}
	return g
}

func (t *Table) newFair(l policy.Limit, value string) *fair {
	largest := t.largest[l.Name]
	return &fair{largest: largest, quantum: l.ShareFor(value) * largest}
}

// place returns where a value is in the order of its group if the best task below it has the given
// priority. A value that does not wait would be the last.
func (f *fair) place(priority uint8) task.Rank {
	if f.at == 0 {
		return task.Rank{Priority: priority, ReadyAt: math.MaxInt64}
	}
	return task.Rank{Priority: priority, ReadyAt: int64(f.at)}
}

// countWaiting updates the values of q after q got its first trigger, or lost its last.
func (t *Table) countWaiting(q *queue) {
	q.waits = q.any
	for _, v := range q.values {
		f := v.fair
		if !q.waits {
			if f.waiting--; f.waiting == 0 {
				f.at = 0
			}
			continue
		}
		if f.waiting++; f.waiting == 1 {
			t.turns++
			f.at, f.credit = t.turns, f.quantum
		}
	}
}

// spendTurns takes the weight of a task of q, which is starting, from the credit of its values.
func (t *Table) spendTurns(now int64, q *queue) {
	for _, v := range q.values {
		f := v.fair
		if f.at == 0 {
			continue
		}
		if f.credit -= q.kind.policy.Weight; f.credit >= f.largest {
			continue
		}
		t.turns++
		f.at = t.turns
		f.credit += f.quantum
		for _, s := range f.stands {
			t.raise(s.on, s.node)
			t.markRoomy(now, s.on)
		}
	}
}

// crowd returns how many queues with triggers the table has of the same value of the highest fair limit
// of q. It returns 0 if q has no fair limit.
func (q *queue) crowd() int {
	if len(q.values) == 0 {
		return 0
	}
	return q.values[len(q.values)-1].fair.waiting
}

// crowdOf returns the crowd of a queue of k that is not in the table.
func (t *Table) crowdOf(k *kind, group string) int {
	if !k.fair {
		return 0
	}
	values := k.valuesOf(group)
	chain, texts := values.take(k.tree)
	crowd := 0
	for i, l := range chain {
		if n, ok := t.nodes[nodeKey(chain[i:], texts)]; ok && l.Fair {
			crowd = n.fair.waiting
		}
		if l.Per != "" {
			texts = texts[1:]
		}
	}
	return crowd
}

// stand returns the stand on the limit on, or nil.
func (f *fair) stand(on *node) *node {
	if i, ok := f.find(on); ok {
		return f.stands[i].node
	}
	return nil
}

func (f *fair) find(on *node) (int, bool) {
	return slices.BinarySearchFunc(f.stands, on.serial, func(s stand, serial uint64) int { return cmp.Compare(s.on.serial, serial) })
}

// standOf returns the stand of n, which is a value or a group, on a limit. It makes the stand, and the stands
// above it, if they do not exist.
func (t *Table) standOf(on, n *node) *node {
	i, ok := n.fair.find(on)
	if ok {
		return n.fair.stands[i].node
	}
	var s *node
	if last := len(t.spareStands) - 1; last >= 0 {
		s, t.spareStands = t.spareStands[last], t.spareStands[:last]
	} else {
		s = &node{}
	}
	s.serial, s.fair, s.value = n.serial, n.fair, n.value
	n.fair.stands = slices.Insert(n.fair.stands, i, stand{on, s})
	for up := n.parent; up != nil; up = up.parent {
		if up.fair != nil {
			s.parent = t.standOf(on, up)
			break
		}
	}
	return s
}

// raise restores the order of the parked queues of a limit after a change of a stand there. It removes
// stands that have become empty.
func (t *Table) raise(on, s *node) {
	for s != nil {
		up, in := s.parent, &on.parked
		if up != nil {
			in = &up.children
		}
		offer, ok := s.best()
		if offer.node = s; ok && !s.fair.isGroup {
			offer.rank = s.fair.place(offer.rank.Priority)
		}
		t.show(s, in, offer, ok)
		if !ok {
			i, _ := s.fair.find(on)
			s.fair.stands = slices.Delete(s.fair.stands, i, i+1)
			s.fair, s.parent = nil, nil
			if len(t.spareStands) < maxSpareQueues {
				t.spareStands = append(t.spareStands, s)
			}
		}
		s = up
	}
}

// rival returns the child parked on a limit that has its turn before a task of q of the given rank. It
// returns false if the same group has none.
func (q *queue) rival(on *node, rank task.Rank) (child, bool) {
	for i := len(q.values) - 1; i >= 0; i-- {
		v := q.values[i]
		group := v.parent.fair.stand(on)
		if group == nil {
			return child{}, false
		}
		first, _ := group.children.Min()
		own := v.fair.stand(on)
		if first.node != own {
			return first, first.rank.Compare(v.fair.place(rank.Priority)) < 0
		}
		if first, _ = own.children.Min(); first.rank.Compare(rank) < 0 && (i == 0 || first.node.fair == nil || first.node.fair != q.values[i-1].parent.fair) {
			return first, true
		}
	}
	return child{}, false
}

// otherTurn returns the value of a fair limit that has its turn, if n is another value of that limit
// above q.
func (q *queue) otherTurn(n *node) (value string, ok bool) {
	if n.fair == nil {
		return "", false
	}
	group, own := n.parent, n
	if q.parkedOn != nil {
		group, own = n.parent.fair.stand(q.parkedOn), n.fair.stand(q.parkedOn)
	}
	first, ok := group.children.Min()
	if !ok || first.node == own {
		return "", false
	}
	return first.node.value, true
}

// isBehind reports whether a task of q of the given rank has to wait behind parked children of a limit
// that has room for it. first is the first of them. It waits only behind one without room. If it waited behind one with room, three
// queues, each before the next by turn or by rank, could wait for each other for ever.
func (t *Table) isBehind(now int64, q *queue, rank task.Rank, on *node, first child) bool {
	if len(q.values) == 0 {
		return first.rank.Compare(rank) < 0 && !t.room(now, on, first.need)
	}
	if rival, ok := q.rival(on, rank); ok {
		return !t.room(now, on, rival.need) || !t.room(now, on, first.need)
	}
	own := q.values[len(q.values)-1].parent.fair.stand(on)
	return first.node != own && first.rank.Compare(rank) < 0 && !t.room(now, on, first.need)
}

// ahead returns a queue that is parked on a limit of q and has its turn before a task of q of the given
// rank, or nil. q has values, and its limits have room for both.
func (q *queue) ahead(rank task.Rank) *queue {
	for _, on := range q.across {
		if rival, ok := q.rival(on, rank); ok {
			return rival.node.leaf()
		}
	}
	return nil
}
