package cli

import (
	"fmt"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of key share this file.

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
