package transfer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/taskengine/taskengine/storage"
)

// markName is the setting of the destination of a copy that is not complete.
const markName = "taskengine/copy"

// mark is the value of that setting.
type mark struct {
	From  string `json:"from"`
	Merge bool   `json:"merge"`
}

// Unfinished returns an error that wraps [ErrUnfinished] if s is the destination of a copy that is
// not complete: a node must not run its tasks.
func Unfinished(ctx context.Context, s storage.Settings) error {
	m, err := readMark(ctx, s)
	if err != nil || m == nil {
		return err
	}
	return fmt.Errorf("%w: it comes from %s; run the same copy again, it goes on where it ended", ErrUnfinished, m.From)
}

// readMark returns the mark of a store, nil if it has none.
func readMark(ctx context.Context, s storage.Settings) (*mark, error) {
	value, err := s.Setting(ctx, markName)
	if err != nil || value == nil {
		return nil, err
	}
	m := new(mark)
	if err := json.Unmarshal(value, m); err != nil {
		return nil, fmt.Errorf("the setting %s is damaged: %w", markName, err)
	}
	return m, nil
}

func writeMark(ctx context.Context, s storage.Settings, m mark) error {
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.SetSetting(ctx, markName, value)
}
