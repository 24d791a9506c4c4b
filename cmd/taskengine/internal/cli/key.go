package cli

import (
	"fmt"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of key share this file.

// keyJSON is an ordering key in the contract of -o json. Behind is how many tasks are behind the head.
type keyJSON struct {
	Key             string     `json:"key"`
	Head            *taskJSON  `json:"head,omitempty"`
	Behind          int64      `json:"behind"`
	BehindTruncated bool       `json:"behind_truncated,omitempty"`
	OldestReadyAt   *time.Time `json:"oldest_ready_at,omitempty"`
}

func keyToJSON(k *taskenginev1.OrderingKey) keyJSON {
	return keyJSON{
		Key: k.GetKey(), Head: headToJSON(k.GetHead()), Behind: k.GetBehind(), BehindTruncated: k.GetBehindTruncated(),
		OldestReadyAt: timeToJSON(k.GetOldestReadyAt()),
	}
}

// headToJSON returns the head of a key; nil if it has none.
func headToJSON(t *taskenginev1.Task) *taskJSON {
	if t == nil {
		return nil
	}
	j := taskToJSON(t)
	return &j
}

// behindWords says how many tasks are behind the head of a key.
func behindWords(k *taskenginev1.OrderingKey) string {
	if k.GetBehindTruncated() {
		return fmt.Sprintf("more than %d", k.GetBehind())
	}
	return fmt.Sprint(k.GetBehind())
}

// aboutKey replaces the error of a node without a running or waiting task of a key.
func aboutKey(key string, err error) error {
	if exit.Code(err) != exit.NotFound {
		return err
	}
	return exit.Errorf(exit.NotFound, "no task with the ordering key %.80q runs or waits", key)
}
