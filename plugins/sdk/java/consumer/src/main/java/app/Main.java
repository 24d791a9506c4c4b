package app;

import io.github.taskengine.client.ClientException;
import io.github.taskengine.client.Receipt;
import io.github.taskengine.client.Request;
import io.github.taskengine.client.TaskengineClient;
import io.github.taskengine.handler.Handlers;
import java.time.Duration;

/** Uses a client and handlers, without a node. */
public class Main {
  record Mail(String to) {}

  public static void main(String[] args) {
    new io.netty.channel.nio.NioEventLoopGroup(1).shutdownGracefully(); // of its own Netty
    System.out.println("protobuf " + com.google.protobuf.ByteString.copyFromUtf8("3.25"));
    new Handlers().on("upper", task -> task.text().toUpperCase());
    try (TaskengineClient client =
        TaskengineClient.to("127.0.0.1:1", "unix:/nowhere").timeout(Duration.ofSeconds(1)).open()) {
      Receipt receipt = client.submit(Request.of("mail").payload(new Mail("a@example.com")));
      throw new IllegalStateException("no node has added " + receipt);
    } catch (ClientException e) {
      System.out.println("without a node: " + e.getMessage());
    }
  }
}
