// Package reserved says who may add tasks of the types and with the ids that [task.IsReservedType] and [task.IsReservedID]
// name: the packages of this module that own them.
package reserved

// Owner is what an owner passes to the engine. Only packages of this module can name it.
type Owner struct{}
