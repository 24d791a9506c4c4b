package kv

import (
	"errors"

	"github.com/taskengine/taskengine/task"
)

// newest merges several sequences of ids, each with the newest first. An id is in two of them only if the ids are
// remembered and the row has got another entry since.
type newest struct {
	ids        []task.ID
	remembered bool                        // the ids are of an earlier moment
	again      bool                        // they are to be remembered for the next page
	mark       uint64                      // of pages, for that
	since      uint64                      // the starts of lists before the ids were collected, for that
	has        func(task.ID) (bool, error) // reports whether a row may be selected; nil selects all
	cursors    []Cursor                    // over an index in the order of ids, each on the id under the same index of heads
	heads      []task.ID
}

// add has n yield the rows without a time that are in this state and below before.
func (n *newest) add(r Reader, s task.State, before task.ID) error {
	upper := []byte{prefixNever, byte(s) + 1}
	if !before.IsZero() {
		upper = appendNeverKey(nil, s, before)
	}
	return n.addRange(r, []byte{prefixNever, byte(s)}, upper)
}

// addRange has n yield the ids of the keys in [lower, upper) of an index in the order of ids.
func (n *newest) addRange(r Reader, lower, upper []byte) error {
	c, err := r.Scan(lower, upper)
	if err != nil {
		return err
	}
	n.cursors, n.heads = append(n.cursors, c), append(n.heads, task.ID{})
	return n.stand(len(n.cursors)-1, c.Last())
}

// stand updates the head of cursor i, which is zero at the end.
func (n *newest) stand(i int, ok bool) (err error) {
	n.heads[i] = task.ID{}
	if !ok {
		return n.cursors[i].Err()
	}
	key := n.cursors[i].Key()
	switch key[0] {
	case prefixKind:
		n.heads[i], err = parseKindKey(key)
	case prefixSearch:
		n.heads[i], err = parseSearchKey(key)
	default:
		n.heads[i], err = parseNeverKey(key)
	}
	return err
}

// next removes and returns the newest remaining id, and reports whether there is one.
func (n *newest) next() (id task.ID, ok bool, err error) {
	if len(n.ids) > 0 {
		id, ok = n.ids[0], true
	}
	for _, head := range n.heads {
		if !head.IsZero() && (!ok || head.Compare(id) > 0) {
			id, ok = head, true
		}
	}
	if !ok {
		return id, false, nil
	}
	if len(n.ids) > 0 && n.ids[0] == id {
		n.ids = n.ids[1:]
	}
	for i, head := range n.heads {
		if head == id {
			err = errors.Join(err, n.stand(i, n.cursors[i].Prev()))
		}
	}
	return id, true, err
}

// holds reports whether a row may be selected.
func (n *newest) holds(id task.ID) (bool, error) {
	if n.has == nil {
		return true, nil
	}
	return n.has(id)
}

// close closes the cursors and returns their errors.
func (n *newest) close() (err error) {
	for _, c := range n.cursors {
		err = errors.Join(err, c.Close())
	}
	return err
}
