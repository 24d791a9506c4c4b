package io.github.taskengine.handler;

/**
 * What a handler returns that has ended the attempt itself, by a function of the database that has
 * the tasks, in a transaction that has committed. The node looks what the task is now. If the
 * attempt has not ended, it has failed.
 */
public record Ended() {}
