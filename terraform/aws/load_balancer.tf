resource "aws_lb" "this" {
  #checkov:skip=CKV2_AWS_28:A web ACL is the user's choice (web_acl_arn): deliveries are let in by signature, the API by key.
  #checkov:skip=CKV2_AWS_76:What that web ACL holds is the user's too; nothing here is Java, and no value of a request is interpreted.
  name                       = var.name
  load_balancer_type         = "application"
  internal                   = false
  subnets                    = var.public_subnet_ids
  security_groups            = [aws_security_group.load_balancer.id]
  drop_invalid_header_fields = true
  desync_mitigation_mode     = "strictest"
  enable_deletion_protection = var.deletion_protection
  # above gateway.hold, for which an answer may be held (Prefer: wait)
  idle_timeout = 70
  tags         = var.tags

  dynamic "access_logs" {
    for_each = var.access_logs_bucket == null ? [] : [var.access_logs_bucket]

    content {
      bucket  = access_logs.value
      prefix  = var.name
      enabled = true
    }
  }
}

resource "aws_wafv2_web_acl_association" "this" {
  count = var.web_acl_arn == null ? 0 : 1

  resource_arn = aws_lb.this.arn
  web_acl_arn  = var.web_acl_arn
}

resource "aws_lb_target_group" "gateway" {
  # a port or protocol cannot change in place, and two cannot have one name
  name_prefix          = "gw-"
  target_type          = "ip"
  vpc_id               = var.vpc_id
  protocol             = "HTTP"
  port                 = local.gateway_port
  deregistration_delay = 15
  tags                 = var.tags

  # ECS replaces what this calls unhealthy, so it asks for the process alone: while Redis fails over, or no dispatcher
  # takes work, no gateway is ready, and a new one would not be either. A gateway answers 503 by itself meanwhile.
  health_check {
    path                = local.live_path
    matcher             = "200"
    interval            = 15
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = 4
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.this.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn
  tags              = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.gateway.arn
  }
}

resource "aws_lb_listener" "http" {
  load_balancer_arn = aws_lb.this.arn
  port              = 80
  protocol          = "HTTP"
  tags              = var.tags

  default_action {
    type = "redirect"

    redirect {
      port        = "443"
      protocol    = "HTTPS"
      status_code = "HTTP_301"
    }
  }
}

# what Prometheus reads is for inside
resource "aws_lb_listener_rule" "metrics" {
  listener_arn = aws_lb_listener.https.arn
  priority     = 1
  tags         = var.tags

  condition {
    path_pattern {
      values = [local.metrics_path]
    }
  }

  action {
    type = "fixed-response"

    fixed_response {
      content_type = "text/plain"
      message_body = "not found"
      status_code  = "404"
    }
  }
}
