// Package bulk describes jobs that change all tasks that a filter selects: one verb, such as resume, for thousands of tasks. It has
// no clock and no I/O. Package jobs runs the jobs on an engine.
//
// A job is a task. Its payload is a [Job], the order of people: only they change it. Its checkpoint is a [State], how far the job is:
// only its runs change it. The job goes through the tasks from the newest id to the oldest. It writes down a part of them with their
// versions, the plan, before it changes them. After a crash the plan is carried out again, by the versions: so each task is changed once.
package bulk
