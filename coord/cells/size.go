package cells

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
)

// TooLargeError says that the coordinator takes no value of this size. The value was not stored.
type TooLargeError struct {
	Key  string // of the cell
	Size int    // bytes of the value
	Most int    // how many a value may have
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the value of %s would have %d bytes, and the coordinator takes at most %d", e.Key, e.Size, e.Most)
}

// longestName is how many bytes a name has at most that is as it is in a cell with many of them: see [limits.Short].
const longestName = 64

// requestSize is the largest size of the changes in a request of the node, in bytes, unless a single change has more. A
// much larger request delays the requests of other nodes.
const requestSize = 256 << 10

// Size returns how many bytes a change takes up in a request, rounded up.
func (c *Change) Size() int {
	const others = 300 // versions, flags, an ACL
	return 2*len(c.Was.Key) + len(c.Value) + others
}

// Parts returns changes in parts of at most count changes and bytes bytes, where each change takes up some bytes more than
// its Size. A change that has more bytes is a part of its own.
func Parts(changes []Change, count, bytes, more int) iter.Seq[[]Change] {
	return func(yield func([]Change) bool) {
		for len(changes) > 0 {
			n, size := 0, 0
			for n < min(count, len(changes)) && (n == 0 || size+changes[n].Size()+more <= bytes) {
				size += changes[n].Size() + more
				n++
			}
			if !yield(slices.Clip(changes[:n])) {
				return
			}
			changes = changes[n:]
		}
	}
}

// mayRefuse reports whether plans have no values of a cell that are too large.
func mayRefuse(key string) bool {
	return strings.HasPrefix(key, permitKey) || strings.HasPrefix(key, memberKey)
}

// isTooLarge returns an error for a value that the coordinator does not take.
func (n *Node) isTooLarge(key string, value []byte) *TooLargeError {
	if most := n.store.MaxValue(); len(value) > most {
		return &TooLargeError{Key: key, Size: len(value), Most: most}
	}
	return nil
}

// refuseSome returns the orders for a cell that fit into it, and false if the cell cannot be changed at all. The
// others are answered without permits, and are tried again when the cell has become smaller. Orders that need no more room
// are refused last, and among the others the newest ones first. It is called with mu held.
func (n *Node) refuseSome(was *permits, sent []*ordered, why *TooLargeError) ([]*ordered, bool) {
	var growing []*ordered
	for _, or := range sent {
		if _, st := was.standing(or.name, or.of.id); st == nil && or.order.Want > 0 {
			growing = append(growing, or)
		}
	}
	with := func(fit int) []*ordered {
		refused := map[*ordered]bool{}
		for _, or := range growing[fit:] {
			refused[or] = true
		}
		return slices.DeleteFunc(slices.Clone(sent), func(or *ordered) bool { return refused[or] })
	}
	tooMany := sort.Search(len(growing)+1, func(fit int) bool {
		next, _ := n.next(was, with(fit))
		return n.isTooLarge(why.Key, next.value()) != nil
	})
	refused := sent
	if tooMany > 0 {
		refused = growing[tooMany-1:]
	}
	if !n.full[why.Key] {
		n.full[why.Key] = true
		name := ""
		if len(refused) > 0 {
			name = refused[0].order.Name
		}
		n.options.Log.Error("no permits are granted of some limits until others of the same cell are not used any more, or "+
			n.options.Driver+" is configured to take larger requests", "limit", name, "cell", why.Key, "bytes", why.Size, "most", why.Most)
	}
	for _, or := range refused {
		if !or.refused || or.number != or.order.Number {
			or.refused, or.number = true, or.order.Number
			or.of.tell(or)
		}
	}
	if tooMany == 0 {
		return nil, false
	}
	return with(tooMany - 1), true
}
