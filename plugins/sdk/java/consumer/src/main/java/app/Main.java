package app;

import com.fasterxml.jackson.annotation.JsonProperty;
import io.github.taskengine.client.ClientException;
import io.github.taskengine.client.Receipt;
import io.github.taskengine.client.Request;
import io.github.taskengine.client.TaskengineClient;
import io.github.taskengine.handler.Handlers;
import io.github.taskengine.json.Json;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** Uses a client and handlers, without a node. Its argument is the JSON of a record that has annotations of Jackson. */
public class Main {
  record Mail(String to) {}

  record Named(@JsonProperty("class") String kind) {}

  public static void main(String[] args) {
    new io.netty.channel.nio.NioEventLoopGroup(1).shutdownGracefully(); // of its own Netty
    System.out.println("protobuf " + com.google.protobuf.ByteString.copyFromUtf8("3.25"));
    String json = new String(Json.standard().encode(new Named("a")), StandardCharsets.UTF_8);
    if (!json.equals(args[0])) {
      throw new IllegalStateException("the record is " + json + ", and should be " + args[0]);
    }
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
