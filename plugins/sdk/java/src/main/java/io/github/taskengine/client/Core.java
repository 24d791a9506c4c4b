package io.github.taskengine.client;

import io.github.taskengine.internal.Daemons;
import io.github.taskengine.internal.Transport;
import io.github.taskengine.json.Json;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** What a client, and the same client with other timeouts, share. */
final class Core {
  final Requests requests;
  final Sender sender;
  final Calls calls;
  final Json json;
  final long timeout; // nanoseconds

  private final EventLoopGroup group;
  private final Nodes nodes;
  private final AtomicBoolean isClosed = new AtomicBoolean();

  Core(ClientBuilder options) {
    group =
        new MultiThreadIoEventLoopGroup(
            1, Daemons.named("taskengine-client-"), Transport.best().io());
    nodes = new Nodes(nodesOf(options, group));
    sender = new Sender(nodes, group.next(), options.timeout);
    calls = new Calls(nodes, sender);
    requests = new Requests(options.json, options.decorate, new Ids());
    json = options.json;
    timeout = options.timeout;
  }

  private static List<Node> nodesOf(ClientBuilder options, EventLoopGroup group) {
    return options.addresses.stream().map(a -> new Node(a, options.access(), group)).toList();
  }

  void close() {
    sender.checkThread();
    if (isClosed.getAndSet(true)) {
      return;
    }
    calls.close();
    try {
      sender.close();
      nodes.close(); // ends the calls that the sender waits for
      sender.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      nodes.close();
    } finally {
      group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    }
  }
}
