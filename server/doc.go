// Package server serves a node over the network: the API, which submits, reads and manages tasks, and the admin
// listener with health, metrics, profiles and backups. It makes no decision about tasks: every method of the API calls
// the engine.
//
//	api.go, tasks.go, manage.go, types.go, logs.go   methods of proto/taskengine/v1
//	submit_stream.go                                 tasks that are added over a stream
//	sources.go, slices.go                            methods about sources of tasks
//	request.go, reply.go, codec.go                   conversion between messages and types of the engine
//	errors.go                                        codes of errors
//	admin.go, health.go, build.go, backup.go         health, version, profiles and backups
//	metrics.go, observe.go, gather.go, standstill.go  metrics
//	failures.go, errors_summary.go                   log of failed attempts
//	listen.go, socket.go, limit.go, guard.go, private.go  listeners and access to them
//	route.go, grpc.go                                connections of gRPC libraries, which have a server of their own
package server

//go:generate ./proto/generate.sh
