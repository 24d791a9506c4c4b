// Package server is the face of a node to the network: the API by which tasks are
// submitted, looked at and managed, and the admin listener by which the node itself is
// watched. It decides nothing about tasks; every call ends in the engine.
//
//	api.go, tasks.go, manage.go, types.go   the methods of proto/taskengine/v1
//	request.go, reply.go, codec.go          between the messages and the engine's words
//	errors.go                               the one table of errors and codes
//	admin.go, health.go, build.go           health, metrics, profiles, version
//	metrics.go, observe.go, gather.go       what is counted, and from where
//	failures.go                             what is logged about tasks
//	listen.go, guard.go                     connections, and who may make them
package server

//go:generate ./proto/generate.sh
