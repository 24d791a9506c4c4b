package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// columnOffers returns the columns of the tables of a command, as --columns has them.
func columnOffers(c *cobra.Command) (all []offer) {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	for _, heading := range headingsOf(path) {
		all = append(all, offer{value: columnName(heading)})
	}
	return all
}

// headingsOf returns the headings of the tables of a command, which TestTheColumnsOfEveryTableAreCompleted compares with the tables.
func headingsOf(command string) []string {
	switch command {
	case "task list", "key show":
		return taskHead
	case "task tree":
		return slices.Concat([]string{"CHILD"}, taskHead, []string{"AFTER"})
	case "task count":
		return []string{"TYPE", "STATE", "COUNT"}
	case "errors":
		return []string{"KIND", "TASKS", "FIRST", "LAST", "TYPES", "NODES", "ERROR"}
	case "bulk list":
		return []string{"NAME", "VERB", "PHASE", "CHANGED", "SKIPPED", "REFUSED", "OF", "RATE", "BY", "WHERE"}
	case "document list":
		return []string{"KEY", "VERSION", "BYTES", "UPDATED", "EXPIRES"}
	case "key list":
		return []string{"KEY", "HEAD", "TYPE", "STATE", "BEHIND", "OLDEST", "ERROR"}
	case "type list":
		return []string{"TYPE", "CONFIGURED", "HANDLED", "PAUSED", "RUNNING", "RUN BY", "NODES"}
	case "node list":
		return []string{"NODE", "STATE", "VERSION", "RUNNING", "WAITING", "SHARDS", "CLOCK", "UP", "ROLES", "ADDRESS"}
	case "worker list":
		return []string{"NODE", "WORKER", "NAME", "STATE", "RUNNING", "CONNECTED", "CLOCK", "VERSION", "SDK"}
	case "limit list":
		return []string{"LIMIT", "OF", "PER", "SCOPE", "MAX", "USED", "BY", "RATE", "PAUSED", "SET"}
	case "alert list":
		return []string{"RULE", "STATUS", "SINCE", "ALERT", "NOTIFIED", "SILENCE", "LABELS", "UNTIL", "BY", "COMMENT", "UNSENT TO", "AGE", "ALERTS"}
	case "schedule list":
		return []string{"SCHEDULE", "TYPE", "WHEN", "NEXT", "LAST", "FIRES", "MISSED", "OVERLAPPED", "PAUSED", "ERROR"}
	case "schedule preview":
		return []string{"TIME", "LOCAL", "CLOCK CHANGE"}
	case "source list":
		return append(sourceSheet(nil).head, sliceSourceSheet(nil).head...)
	case "source show":
		return []string{
			"TOPIC", "PARTITION", "POSITION", "END", "LAG", "NODE", "TASKS", "UNREADABLE", "SKIPPED", "MESSAGE",
			"PLATFORM", "STATE", "CURSOR", "LOW-WATER", "RUNNING", "FAILED", "DONE", "PROBLEM", "START", "ID",
		}
	case "token list":
		return []string{"NAME", "STATE", "ROLES", "TYPES", "CREATED", "BY", "EXPIRES", "ROTATED", "EARLIER SECRET", "REVOKED"}
	case "workflow show":
		return []string{"STEP", "STATE", "TYPE", "TASKS", "BEGAN", "ENDED", "WAITS FOR", "TASK", "ERROR"}
	case "shards list":
		return []string{"DATABASE", "SHARDS", "LEAVING"}
	case "bench list":
		return []string{"SCENARIO", "QUESTION"}
	}
	return nil
}
