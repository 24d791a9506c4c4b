// Package jobs runs the jobs of package bulk on an engine, and passes them the orders of users.
package jobs
