package plugins

import "github.com/taskengine/taskengine/plugins/internal/calls"

// The calls of a Host are run by its sessions.
type (
	call   = calls.Call[*session]
	queue  = calls.Queue[*session]
	answer = calls.Answer
)
