// Package reserved restricts tasks with a reserved type ([task.IsReservedType]) or id ([task.IsReservedID]) to the
// packages of this module that own them.
package reserved

// Owner is the proof of an owner for the engine. Only packages of this module can name it.
type Owner struct{}
