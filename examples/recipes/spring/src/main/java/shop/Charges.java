package shop;

import io.github.taskengine.handler.Connection;
import io.github.taskengine.handler.Handlers;
import io.github.taskengine.handler.Task;
import io.github.taskengine.handler.Worker;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Component;
import shop.Shop.Order;
import shop.Shop.Receipt;

/** The worker in the process of the service. Spring ends it after the last request is answered. */
@Component
class Charges implements DisposableBean {
  private final Worker worker;

  Charges(@Value("${shop.nodes}") String[] nodes) {
    worker = new Handlers().on(Shop.CHARGE, Charges::charge).work(Connection.to(nodes));
  }

  /**
   * It may run twice, after a crash: a payment service gets the order's id, by which it knows the
   * second one.
   */
  private static Receipt charge(Task task) {
    return new Receipt("R-" + task.json(Order.class).id());
  }

  @Override
  public void destroy() {
    worker.close(); // tasks that have begun are answered
    System.out.println("closed");
  }
}
