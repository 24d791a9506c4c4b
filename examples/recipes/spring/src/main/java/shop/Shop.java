package shop;

import io.github.taskengine.client.TaskengineClient;
import java.time.Duration;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.server.context.WebServerInitializedEvent;
import org.springframework.context.annotation.Bean;
import org.springframework.context.event.EventListener;

/**
 * A web service that charges cards by tasks: {@link Orders} adds a task for each order and says
 * what became of it, and {@link Charges} runs the tasks in the process of the service.
 */
@SpringBootApplication
public class Shop {
  /** The type of the tasks. */
  static final String CHARGE = "charge";

  /** What customers send. */
  record Order(String id, long cents) {}

  /** The result of a charge. */
  record Receipt(String receipt) {}

  public static void main(String[] args) {
    SpringApplication.run(Shop.class, args);
  }

  @Bean
  TaskengineClient tasks(@Value("${shop.nodes}") String[] nodes) {
    return TaskengineClient.to(nodes).timeout(Duration.ofSeconds(5)).open();
  }

  @EventListener
  void say(WebServerInitializedEvent started) {
    System.out.println("listening on 127.0.0.1:" + started.getWebServer().getPort());
  }
}
