// Package top shows the numbers of a cluster on a terminal, and refreshes them.
package top

import (
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// Answer has what a node said.
type Answer struct {
	Address  string    // of the node
	At       time.Time // when it was asked
	Overview *taskenginev1.OverviewResponse
	Nodes    *taskenginev1.ListNodesResponse  // nil: unknown
	Kinds    *taskenginev1.ListErrorsResponse // nil: unknown
	KindsAt  time.Time                        // when the errors were counted

	// Why a part is unknown.
	NodesProblem, KindsProblem string
}
