package shop;

import io.github.taskengine.client.BacklogFullException;
import io.github.taskengine.client.ClientException;
import io.github.taskengine.client.DeadlineExceededException;
import io.github.taskengine.client.InvalidException;
import io.github.taskengine.client.NotDoneException;
import io.github.taskengine.client.NotFoundException;
import io.github.taskengine.client.Request;
import io.github.taskengine.client.TaskengineClient;
import io.github.taskengine.client.UnavailableException;
import java.time.Duration;
import java.util.Map;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.http.converter.HttpMessageNotReadableException;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;
import shop.Shop.Order;
import shop.Shop.Receipt;

/** What customers call. */
@RestController
class Orders {
  private static final Map<String, String> INVALID = Map.of("error", "an order has an id and cents");

  private final TaskengineClient tasks;

  Orders(TaskengineClient tasks) {
    this.tasks = tasks;
  }

  /** It may be repeated: the id of the order is the key of its task. */
  @PostMapping("/orders")
  ResponseEntity<?> add(@RequestBody Order order) {
    if (order.id() == null || order.id().isEmpty() || order.cents() <= 0) {
      return ResponseEntity.badRequest().body(INVALID);
    }
    var receipt = tasks.submit(Request.of(Shop.CHARGE).payload(order).key(order.id()));
    return ResponseEntity.accepted().body(Map.of("task", receipt.id()));
  }

  /** It waits up to 10 s for what became of the order. */
  @GetMapping("/orders/{id}")
  ResponseEntity<?> get(@PathVariable String id) {
    var task = tasks.find(Shop.CHARGE, id);
    try {
      var result = tasks.within(Duration.ofSeconds(10)).result(task.id(), Receipt.class);
      return ResponseEntity.ok(Map.of("state", "done", "receipt", result.receipt()));
    } catch (NotDoneException e) {
      return ResponseEntity.ok(Map.of("state", e.state(), "error", e.getMessage()));
    } catch (DeadlineExceededException e) {
      return ResponseEntity.accepted().body(Map.of("state", "running"));
    }
  }

  @ExceptionHandler
  ResponseEntity<?> fail(ClientException e) {
    var answer = ResponseEntity.status(statusOf(e));
    if (statusOf(e) == HttpStatus.SERVICE_UNAVAILABLE) {
      answer.header("Retry-After", "1");
    }
    return answer.body(Map.of("error", e.getMessage()));
  }

  private static HttpStatus statusOf(ClientException e) {
    if (e instanceof InvalidException) {
      return HttpStatus.BAD_REQUEST;
    }
    if (e instanceof NotFoundException) {
      return HttpStatus.NOT_FOUND;
    }
    if (e instanceof BacklogFullException
        || e instanceof UnavailableException
        || e instanceof DeadlineExceededException) {
      return HttpStatus.SERVICE_UNAVAILABLE;
    }
    return HttpStatus.BAD_GATEWAY;
  }

  @ExceptionHandler
  ResponseEntity<?> refuse(HttpMessageNotReadableException e) {
    return ResponseEntity.badRequest().body(INVALID);
  }
}
