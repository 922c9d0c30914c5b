# Gateways follow their CPU. Dispatchers follow how long the oldest job waits: what users feel, whatever jobs cost.

locals {
  metric_namespace = "EventGateway"
  oldest_metric    = "gateway_lane_oldest_seconds"
}

resource "aws_appautoscaling_target" "gateway" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.gateway.name}"
  min_capacity       = var.gateway_count.min
  max_capacity       = var.gateway_count.max
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "gateway_cpu" {
  name               = "${var.name}-gateway-cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.gateway.service_namespace
  scalable_dimension = aws_appautoscaling_target.gateway.scalable_dimension
  resource_id        = aws_appautoscaling_target.gateway.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = var.gateway_cpu_target
    scale_out_cooldown = 60
    scale_in_cooldown  = 300

    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}

resource "aws_appautoscaling_target" "dispatcher" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.dispatcher.name}"
  min_capacity       = var.dispatcher_count.min
  max_capacity       = var.dispatcher_count.max
  tags               = var.tags
}

# the further above the target, the larger the step; bounds are seconds above the alarm's threshold
resource "aws_appautoscaling_policy" "dispatcher_out" {
  name               = "${var.name}-dispatcher-out"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.dispatcher.service_namespace
  scalable_dimension = aws_appautoscaling_target.dispatcher.scalable_dimension
  resource_id        = aws_appautoscaling_target.dispatcher.resource_id

  step_scaling_policy_configuration {
    adjustment_type          = "PercentChangeInCapacity"
    cooldown                 = 60
    min_adjustment_magnitude = 1
    metric_aggregation_type  = "Maximum"

    step_adjustment {
      metric_interval_lower_bound = 0
      metric_interval_upper_bound = var.oldest_age_target_seconds * 2
      scaling_adjustment          = 25
    }

    step_adjustment {
      metric_interval_lower_bound = var.oldest_age_target_seconds * 2
      scaling_adjustment          = 100
    }
  }
}

resource "aws_appautoscaling_policy" "dispatcher_in" {
  name               = "${var.name}-dispatcher-in"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.dispatcher.service_namespace
  scalable_dimension = aws_appautoscaling_target.dispatcher.scalable_dimension
  resource_id        = aws_appautoscaling_target.dispatcher.resource_id

  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    cooldown                = 300
    metric_aggregation_type = "Maximum"

    step_adjustment {
      metric_interval_upper_bound = 0
      scaling_adjustment          = -1
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "oldest_high" {
  alarm_name          = "${var.name}-oldest-age-high"
  alarm_description   = "Jobs wait for longer than oldest_age_target_seconds: more dispatchers"
  namespace           = local.metric_namespace
  metric_name         = local.oldest_metric
  dimensions          = { installation = var.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.oldest_age_target_seconds
  # no dispatcher tells anything: there is nothing to tell it by
  treat_missing_data = "missing"
  alarm_actions      = [aws_appautoscaling_policy.dispatcher_out.arn]
  tags               = var.tags
}

resource "aws_cloudwatch_metric_alarm" "oldest_low" {
  alarm_name          = "${var.name}-oldest-age-low"
  alarm_description   = "Jobs hardly wait: one dispatcher less"
  namespace           = local.metric_namespace
  metric_name         = local.oldest_metric
  dimensions          = { installation = var.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 10
  comparison_operator = "LessThanThreshold"
  threshold           = var.oldest_age_target_seconds / 4
  treat_missing_data  = "missing"
  alarm_actions       = [aws_appautoscaling_policy.dispatcher_in.arn]
  tags                = var.tags
}
