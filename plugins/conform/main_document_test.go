package conform_test

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/task"
)

func writeAsAsked(ctx context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		Read   string
		Append *string
		Write  []struct {
			Key, Data string
			Delete    bool
			ExpiresMS int64 `json:"expires_ms"`
		}
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	out, writes := map[string]any{}, []task.DocumentWrite{}
	if in.Read != "" {
		d, err := task.ReadDocument(ctx, in.Read)
		if err != nil {
			return nil, err
		}
		out = map[string]any{"data": string(d.Data), "version": strconv.FormatUint(d.Version, 10), "expires_ms": millisOf(d.ExpiresAt)}
		if in.Append != nil {
			writes = append(writes, d.Write(append(d.Data, *in.Append...)))
		}
	}
	for _, w := range in.Write {
		write := task.DocumentWrite{Key: w.Key, Data: []byte(w.Data), Delete: w.Delete}
		if w.ExpiresMS != 0 {
			write.ExpiresAt = time.UnixMilli(w.ExpiresMS)
		}
		writes = append(writes, write)
	}
	result, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return result, task.Again(time.Time{}, task.WithDocuments(writes...))
}

func millisOf(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}
