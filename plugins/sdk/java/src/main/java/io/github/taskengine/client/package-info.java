/**
 * Add tasks to nodes of taskengine, wait for them and manage them.
 *
 * <pre>{@code
 * try (var client = TaskengineClient.to("10.0.0.1:7420", "10.0.0.2:7420").open()) {
 *   Receipt receipt = client.submit(Request.of("mail").payload(mail).key("m-1"));
 *   Sent sent = client.result(receipt.id(), Sent.class);
 * }
 * }</pre>
 *
 * <p>Every task has an id that the client makes. So a submit that is repeated, because its answer
 * was lost, adds no second task.
 */
@NullMarked
package io.github.taskengine.client;

import org.jspecify.annotations.NullMarked;
