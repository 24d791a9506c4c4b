// Package record keeps in a store how its nodes coordinate, and refuses a node that coordinates in
// another way. Members of two clusters on one store would take each other for dead, and each run
// the tasks of the other.
//
// The first node that opens a store records the identity of its cluster. Later nodes compare
// theirs with it. [Remove] removes the record, so that the next node records another one; all nodes
// of the store must be stopped then.
package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/storage"
)

// ErrOther says that the nodes of a store are members of another cluster than this node.
var ErrOther = errors.New("the nodes of this store coordinate in another way")

// ErrChanged says that the record was changed while it was removed.
var ErrChanged = errors.New("the record of the coordination has changed")

// name is the setting that has the record.
const name = storage.CoordinationSetting

// Check returns an error that wraps [ErrOther] if a store records another cluster than own. If it
// records none, Check records own. If nodes of different clusters find no record at
// once, only nodes of one cluster get no error.
func Check(ctx context.Context, store storage.Shared, own coord.Identity) error {
	settings, ok := store.(storage.Settings)
	if !ok {
		return nil
	}
	value, err := json.Marshal(own)
	if err != nil {
		return err
	}
	for {
		copies, err := read(ctx, settings)
		if err != nil {
			return err
		}
		complete := true
		for _, c := range copies {
			if c == nil {
				complete = false
			} else if err := compare(c, own); err != nil {
				return err
			}
		}
		if complete {
			return nil
		}
		if err := write(ctx, store, value); err != nil {
			return fmt.Errorf("record how the nodes of the store coordinate: %w", err)
		}
	}
}

// write records value in each database of a store that has no record. It overwrites none, so two
// nodes that then find their own record in a database that both use are of the same cluster.
func write(ctx context.Context, store storage.Shared, value []byte) error {
	if several, ok := store.(storage.Replicated); ok {
		return several.SwapSettingCopies(ctx, name, nil, value)
	}
	_, err := store.SwapSetting(ctx, name, nil, value)
	return err
}

// compare returns an error unless a record is that of own.
func compare(value []byte, own coord.Identity) error {
	recorded, err := parse(value)
	if err != nil {
		return err
	}
	if recorded.Is(own) {
		return nil
	}
	return fmt.Errorf("%w: it records (%v), and this node has (%v); each would take the other for dead and run its tasks; "+
		"give this node the configuration of the others, or, if all nodes are to change, stop them and run `taskengine coordination reset`",
		ErrOther, recorded, own)
}

// Read returns the record of a store, and false if it has none.
func Read(ctx context.Context, store storage.Settings) (recorded coord.Identity, found bool, err error) {
	value, err := store.Setting(ctx, name)
	if err != nil || value == nil {
		return coord.Identity{}, false, err
	}
	recorded, err = parse(value)
	return recorded, err == nil, err
}

// Remove removes the record of a store if it is that of a cluster. The error wraps [ErrChanged] if
// it is another one. All nodes of the store must be stopped.
func Remove(ctx context.Context, store interface {
	storage.Shared
	storage.Settings
}, of coord.Identity,
) error {
	value, err := store.Setting(ctx, name)
	if err != nil || value == nil {
		return err
	}
	recorded, err := parse(value)
	if err != nil {
		return err
	}
	if !recorded.Is(of) {
		return fmt.Errorf("%w: it is (%v)", ErrChanged, recorded)
	}
	swapped, err := store.SwapSetting(ctx, name, value, nil)
	if err == nil && !swapped {
		err = ErrChanged
	}
	return err
}

// read returns the record in each database of a store, nil where there is none.
func read(ctx context.Context, store storage.Settings) (copies [][]byte, err error) {
	if several, ok := store.(storage.Replicated); ok {
		copies, err = several.SettingCopies(ctx, name)
	} else {
		copies = make([][]byte, 1)
		copies[0], err = store.Setting(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("read how the nodes of the store coordinate: %w", err)
	}
	return copies, nil
}

func parse(value []byte) (recorded coord.Identity, err error) {
	if err = json.Unmarshal(bytes.TrimSpace(value), &recorded); err == nil && recorded.Driver == "" {
		err = errors.New("it names no driver")
	}
	if err != nil {
		return coord.Identity{}, fmt.Errorf("the setting %s is damaged: %w", name, err)
	}
	return recorded, nil
}
