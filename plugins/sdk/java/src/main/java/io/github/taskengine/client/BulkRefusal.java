package io.github.taskengine.client;

/**
 * Why a bulk job did not change a task.
 *
 * @param taskId of the task
 * @param reason for people
 */
public record BulkRefusal(String taskId, String reason) {}
